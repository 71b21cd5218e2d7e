//! Rows of comma- or tab-separated cells (RFC 4180): a document each, with the fields of the header or of `--fields`.

use std::collections::VecDeque;
use std::io::{self, Read};

use bson::{Bson, Document, RawDocumentBuf};
use csv::{ByteRecord, Reader, ReaderBuilder};

use super::cell::Field;
use super::{MAX_RECORD, Record, Records, unreadable};

/// How rows are read.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct CsvOptions {
    /// The fields; empty: the first row says which.
    pub(in crate::cli) fields: Vec<Field>,
    /// Types of fields that the header names.
    pub(in crate::cli) types: Vec<Field>,
    /// Empty cells are no fields, instead of empty texts.
    pub(in crate::cli) ignore_blanks: bool,
}

/// The rows of a file.
pub(super) struct Csv<R> {
    reader: Reader<Limited<R>>,
    fields: Vec<Field>,
    types: Vec<Field>,
    ignore_blanks: bool,
    record: ByteRecord,
    /// The line of the last row.
    line: u64,
}

/// A reader that ends a row that has no end: a quotation mark too many would make one of the rest of the file.
struct Limited<R> {
    input: R,
    left: u64,
    /// Bytes read, and the last of them.
    at: u64,
    last: u8,
    /// Where lines end in what was read last and is not a row yet, and whether a carriage return is before that.
    ends: VecDeque<(u64, bool)>,
    /// Where the row begins that is being read, or the empty lines before it that have not been counted.
    begins: u64,
    /// Lines that have ended before it, since the row before it began.
    before: u64,
    /// Lines that have ended within it, in what was read before `ends`. The reader has asked for more, and so has seen all of that.
    within: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let message =
                format!("a row is longer than {} MiB: is a quotation mark missing?", MAX_RECORD >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        self.pass_empty_lines();
        self.within += self.ends.len() as u64;
        self.ends.clear();
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.input.read(buffer.get_mut(..most).unwrap_or_default())?;
        self.left -= read as u64;
        for byte in buffer.get(..read).unwrap_or_default() {
            if *byte == b'\n' {
                self.ends.push_back((self.at, self.last == b'\r'));
            }
            self.at += 1;
            self.last = *byte;
        }
        Ok(read)
    }
}

impl<R> Limited<R> {
    /// A row begins where the one before it, or its carriage return, has ended: empty lines may be in between.
    fn begin(&mut self, at: u64) {
        self.left = MAX_RECORD;
        self.begins = at;
        self.before = std::mem::take(&mut self.within);
    }

    /// Counts lines that have ended before the row.
    fn pass_empty_lines(&mut self) {
        while let Some((end, after_return)) = self.ends.front() {
            let is_before = *end <= self.begins || *after_return && *end == self.begins + 1;
            if !is_before {
                break;
            }
            self.begins = self.begins.max(end + 1);
            self.before += 1;
            self.ends.pop_front();
        }
    }

    /// Lines that have ended between the beginnings of the row before and of this one, which has been read.
    fn lines_before(&mut self) -> u64 {
        self.pass_empty_lines();
        std::mem::take(&mut self.before)
    }
}

impl<R: Read> Csv<R> {
    pub(super) fn new(input: R, separator: u8, options: CsvOptions) -> Self {
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(separator)
            .buffer_capacity(1 << 16)
            .from_reader(Limited {
                input,
                left: MAX_RECORD,
                at: 0,
                last: 0,
                ends: VecDeque::new(),
                begins: 0,
                before: 0,
                within: 0,
            });
        let CsvOptions { fields, types, ignore_blanks } = options;
        Csv { reader, fields, types, ignore_blanks, record: ByteRecord::new(), line: 1 }
    }

    /// Reads a row; its line, or `None` at the end.
    fn row(&mut self) -> io::Result<Option<u64>> {
        let begins = self.reader.position().byte();
        self.reader.get_mut().begin(begins);
        match self.reader.read_byte_record(&mut self.record) {
            Ok(true) => {
                self.line += self.reader.get_mut().lines_before();
                Ok(Some(self.line))
            }
            Ok(false) => Ok(None),
            Err(error) => Err(unreadable(self.line, &format!("{error} (in this row or the next)"))),
        }
    }

    /// Takes the fields from the first row.
    fn read_header(&mut self) -> io::Result<()> {
        let Some(line) = self.row()? else { return Err(unreadable(1, "there is no header")) };
        let mut fields = Vec::new();
        for cell in &self.record {
            let name = std::str::from_utf8(cell).map_err(|error| unreadable(line, &error.to_string()))?;
            let field: Field = name.parse().map_err(|what: String| unreadable(line, &what))?;
            let typed = self.types.iter().find(|typed| typed.name == field.name);
            fields.push(typed.cloned().unwrap_or(field));
        }
        if let Some(missing) =
            self.types.iter().find(|typed| !fields.iter().any(|field| field.name == typed.name))
        {
            return Err(unreadable(
                line,
                &format!("the header has no field {:?}, whose type was given", missing.name),
            ));
        }
        check_fields(&fields).map_err(|what| unreadable(line, &what))?;
        self.fields = fields;
        Ok(())
    }

    fn document(&self) -> Result<RawDocumentBuf, String> {
        if self.record.len() != self.fields.len() {
            return Err(format!("{} cells, but there are {} fields", self.record.len(), self.fields.len()));
        }
        let mut document = Document::new();
        for (field, cell) in self.fields.iter().zip(&self.record) {
            let name = &field.name;
            let text = std::str::from_utf8(cell).map_err(|error| format!("{name}: not UTF-8: {error}"))?;
            if self.ignore_blanks && text.trim().is_empty() {
                continue;
            }
            if let Some(value) = field.kind.value(text).map_err(|what| format!("{name}: {what}"))? {
                put(&mut document, name, value);
            }
        }
        RawDocumentBuf::try_from(&document).map_err(|error| error.to_string())
    }
}

impl<R: Read + Send> Records for Csv<R> {
    fn next(&mut self) -> io::Result<Option<Record>> {
        if self.fields.is_empty() {
            self.read_header()?;
        }
        Ok(self.row()?.map(|line| (line, self.document())))
    }

    fn position(&self) -> u64 {
        self.reader.position().byte()
    }
}

/// Sets a field, whose dots lead into documents. [`check_fields`] has seen that they can.
fn put(document: &mut Document, name: &str, value: Bson) {
    match name.split_once('.') {
        None => drop(document.insert(name, value)),
        Some((first, rest)) => {
            let inner = document.entry(first.to_owned()).or_insert_with(|| Bson::Document(Document::new()));
            if let Bson::Document(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// Refuses fields of which one is another, or within another.
pub(super) fn check_fields(fields: &[Field]) -> Result<(), String> {
    for (at, field) in fields.iter().enumerate() {
        for other in fields.iter().skip(at + 1) {
            let (a, b) = (&field.name, &other.name);
            let within = |outer: &str, inner: &str| {
                inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
            };
            if a == b {
                return Err(format!("the field {a:?} is there twice"));
            }
            if within(a, b) || within(b, a) {
                return Err(format!("{a:?} and {b:?} cannot both be fields: one is within the other"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn read(text: &[u8], separator: u8, options: CsvOptions) -> (Vec<Record>, Option<String>) {
        let mut csv = Csv::new(text, separator, options);
        let mut all = Vec::new();
        loop {
            match csv.next() {
                Ok(Some(record)) => all.push(record),
                Ok(None) => return (all, None),
                Err(error) => return (all, Some(error.to_string())),
            }
        }
    }

    fn fields(all: &[&str]) -> Vec<Field> {
        all.iter().map(|field| field.parse().unwrap()).collect()
    }

    #[test]
    fn rows_become_documents_with_the_fields_of_the_header() {
        let text = "\u{feff}_id,name,at.city,at.zip:string\r\n1,\"a \"\"b\"\"\",\"x,\ny\",01\r\n\r\n2,c,,\n";
        let (all, error) = read(text.as_bytes(), b',', CsvOptions::default());
        assert_eq!(error, None);
        assert_eq!(
            all,
            [
                (2, Ok(rawdoc! { "_id": 1, "name": "a \"b\"", "at": { "city": "x,\ny", "zip": "01" } })),
                (5, Ok(rawdoc! { "_id": 2, "name": "c", "at": { "city": "", "zip": "" } })),
            ]
        );
    }

    #[test]
    fn fields_and_types_can_be_given_and_blanks_left_out() {
        let options =
            CsvOptions { fields: fields(&["a:long", "b"]), ignore_blanks: true, ..CsvOptions::default() };
        let (all, error) = read(b"1\t x\n2\t\n", b'\t', options);
        assert_eq!(error, None);
        assert_eq!(all, [(1, Ok(rawdoc! { "a": 1_i64, "b": " x" })), (2, Ok(rawdoc! { "a": 2_i64 }))]);
        let options = CsvOptions { types: fields(&["b:string"]), ..CsvOptions::default() };
        assert_eq!(read(b"a,b\n1,1\n", b',', options).0, [(2, Ok(rawdoc! { "a": 1, "b": "1" }))]);
    }

    #[test]
    fn mistakes_are_told_with_line_field_and_what_was_expected() {
        let options = CsvOptions { fields: fields(&["a:int", "b"]), ..CsvOptions::default() };
        let (all, error) = read(b"1,2\nx,3\n4\n5,6,7\n8,\xff\n9,0\n", b',', options);
        assert_eq!(error, None);
        let told: Vec<_> =
            all.iter().filter_map(|(line, row)| Some((*line, row.as_ref().err()?.as_str()))).collect();
        assert_eq!(told.len(), 4, "{told:?}");
        for ((line, what), (expected, message)) in told.iter().zip([
            (2, "a: \"x\" is not an int"),
            (3, "1 cells, but there are 2 fields"),
            (4, "3 cells"),
            (5, "b: not UTF-8"),
        ]) {
            assert!(*line == expected && what.contains(message), "{told:?}");
        }
        for (header, message) in [
            ("a,a", "there twice"),
            ("a,a.b", "one is within the other"),
            ("a,", "not the name of a field"),
            ("", "no header"),
        ] {
            let (_, error) =
                read(format!("{header}\n1,2\n").trim_start().as_bytes(), b',', CsvOptions::default());
            if !header.is_empty() {
                assert!(error.as_ref().is_some_and(|error| error.contains(message)), "{header}: {error:?}");
            }
        }
        assert!(read(b"", b',', CsvOptions::default()).1.is_some_and(|error| error.contains("no header")));
    }

    #[test]
    fn lines_are_counted_through_long_cells_and_gaps_without_remembering_each() {
        let mut text = b"a,b\n".to_vec();
        let mut expected = Vec::new();
        let mut line = 2;
        for (row, end) in (0..40_u64).zip(["\n", "\r\n"].into_iter().cycle()) {
            let (within, empty) = (row * 7919 % 100_000, row * 104_729 % 70_000);
            text.extend_from_slice(end.repeat(empty as usize).as_bytes());
            text.extend_from_slice(format!("\"{}\",{row}{end}", end.repeat(within as usize)).as_bytes());
            expected.push(line + empty);
            line += empty + within + 1;
        }
        let mut csv = Csv::new(&text[..], b',', CsvOptions::default());
        for line in expected {
            assert_eq!(csv.next().unwrap().map(|(line, _)| line), Some(line));
            assert!(csv.reader.get_ref().ends.capacity() <= 1 << 17, "one read, not all of a cell");
        }
        assert_eq!(csv.next().unwrap(), None);
    }

    #[test]
    fn a_row_without_an_end_is_an_error_in_bounded_memory() {
        let endless = b"a\n\"".chain(io::repeat(b'x'));
        let mut csv = Csv::new(endless, b',', CsvOptions::default());
        let error = csv.next().unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("quotation mark"), "{error}");
    }
}
