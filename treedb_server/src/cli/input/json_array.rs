//! A JSON array of documents, which may be longer than memory: it is cut into its elements, and each is parsed by itself.
//!
//! Only brackets, braces and strings are looked at for that. What is wrong within an element is reported, and the reading goes
//! on after it; what is wrong between elements ends it.

use std::io::{self, BufRead};

use treedb_query::doc::json::from_json;

use super::{MAX_RECORD, Record, Records, unreadable};

/// The elements of an array.
pub(super) struct JsonArray<R> {
    input: R,
    line: u64,
    position: u64,
    state: State,
    element: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// After the opening bracket.
    First,
    /// After a comma.
    Next,
    /// After an element.
    Between,
    End,
}

impl<R: BufRead> JsonArray<R> {
    pub(super) fn new(input: R) -> Self {
        JsonArray { input, line: 1, position: 0, state: State::Start, element: Vec::new() }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    fn skip(&mut self, byte: u8) {
        self.input.consume(1);
        self.position += 1;
        self.line += u64::from(byte == b'\n');
    }

    /// The next byte that is not white space, which is not skipped.
    fn token(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.peek()? {
                Some(byte @ (b' ' | b'\t' | b'\r' | b'\n')) => self.skip(byte),
                // The mark that some programs begin a file with.
                Some(byte @ 0xef) if self.position == 0 => {
                    self.skip(byte);
                    for expected in [0xbb, 0xbf] {
                        match self.peek()? {
                            Some(byte) if byte == expected => self.skip(byte),
                            _ => return Err(unreadable(1, "not UTF-8")),
                        }
                    }
                }
                other => return Ok(other),
            }
        }
    }

    /// Reads an element, up to the comma or bracket after it.
    fn element(&mut self) -> io::Result<()> {
        self.element.clear();
        let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
        loop {
            let ready = self.input.fill_buf()?;
            if ready.is_empty() && depth == 0 && !in_string {
                // It is the last, and the closing bracket is missing.
                return Ok(());
            }
            if ready.is_empty() {
                return Err(unreadable(self.line, "the file ends within the array"));
            }
            let mut end = None;
            for (at, byte) in ready.iter().enumerate() {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' => in_string = !in_string,
                    _ if in_string => {}
                    b'{' | b'[' => depth += 1,
                    b',' | b']' | b'}' if depth == 0 => {
                        end = Some(at);
                        break;
                    }
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
            }
            let used = end.unwrap_or(ready.len());
            let taken = ready.get(..used).unwrap_or_default();
            self.line += taken.iter().filter(|byte| **byte == b'\n').count() as u64;
            self.element.extend_from_slice(taken);
            self.input.consume(used);
            self.position += used as u64;
            if end.is_some() {
                return Ok(());
            }
            if self.element.len() as u64 > MAX_RECORD {
                return Err(unreadable(
                    self.line,
                    &format!("an element is longer than {} MiB", MAX_RECORD >> 20),
                ));
            }
        }
    }

    /// The element as a document, and the line that is to be told.
    fn parsed(&self, begins: u64) -> Record {
        let text = match std::str::from_utf8(&self.element) {
            Ok(text) => text.trim_end(),
            Err(error) => return (begins, Err(format!("not UTF-8: {error}"))),
        };
        match from_json(text) {
            Ok(document) => (begins, Ok(document)),
            Err(error) => {
                // The place that it names counts from the element's beginning.
                let mut parts = error.message.rsplitn(2, " at line ");
                let line = parts.next().and_then(|place| place.split(' ').next()?.parse::<u64>().ok());
                match (line, parts.next()) {
                    (Some(line), Some(what)) => (begins + line.saturating_sub(1), Err(what.to_owned())),
                    _ => (begins, Err(error.message)),
                }
            }
        }
    }
}

impl<R: BufRead + Send> Records for JsonArray<R> {
    fn next(&mut self) -> io::Result<Option<Record>> {
        loop {
            let token = self.token()?;
            match (self.state, token) {
                (State::Start, Some(b'[')) => {
                    self.skip(b'[');
                    self.state = State::First;
                }
                (State::First | State::Between, Some(b']')) => {
                    self.skip(b']');
                    self.state = State::End;
                }
                (State::Between, Some(b',')) => {
                    self.skip(b',');
                    self.state = State::Next;
                }
                (State::End, None) => return Ok(None),
                (State::First | State::Next, Some(byte)) if !matches!(byte, b',' | b']' | b'}') => {
                    let begins = self.line;
                    self.element()?;
                    self.state = State::Between;
                    return Ok(Some(self.parsed(begins)));
                }
                (_, None) => return Err(unreadable(self.line, "the file ends before the array does")),
                (state, Some(_)) => {
                    let expected = match state {
                        State::Start => "expected a JSON array",
                        State::First | State::Next => "expected a document",
                        State::Between => "expected a comma or the end of the array",
                        State::End => "there is something after the array",
                    };
                    return Err(unreadable(self.line, expected));
                }
            }
        }
    }

    fn position(&self) -> u64 {
        self.position
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    /// The records, and the error that ends them.
    fn read(text: &str, buffer: usize) -> (Vec<Record>, Option<String>) {
        let mut array = JsonArray::new(io::BufReader::with_capacity(buffer, text.as_bytes()));
        let mut all = Vec::new();
        loop {
            match array.next() {
                Ok(Some(record)) => all.push(record),
                Ok(None) => return (all, None),
                Err(error) => return (all, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn elements_are_found_wherever_lines_and_buffers_end() {
        let text = "\u{feff} [\n{\"a\": \"]},{\\\"\"},\n {\"b\":\n [1, {\"c\": 2}]}\n,{}]\n";
        for buffer in [1, 2, 3, 7, 100] {
            let (all, error) = read(text, buffer);
            assert_eq!(error, None);
            let expected = [
                (2, Ok(rawdoc! { "a": "]},{\"" })),
                (3, Ok(rawdoc! { "b": [1, { "c": 2 }] })),
                (5, Ok(rawdoc! {})),
            ];
            assert_eq!(all, expected, "{buffer}");
        }
        assert_eq!(read("[]", 10), (Vec::new(), None));
    }

    #[test]
    fn a_bad_element_is_reported_with_its_line_and_the_next_is_read() {
        let (all, error) = read("[\n{\"a\": 1},\n{\n\"b\": x\n},\n7, [1],\n{\"c\": 3}]", 10);
        assert_eq!(error, None);
        let lines: Vec<_> = all.iter().map(|(line, document)| (*line, document.is_ok())).collect();
        assert_eq!(lines, [(2, true), (4, false), (6, false), (6, false), (7, true)]);
        assert!(!all[1].1.as_ref().unwrap_err().contains("line"), "{all:?}");
    }

    #[test]
    fn what_is_wrong_between_elements_ends_the_reading_with_its_line() {
        for (text, count, message) in [
            ("{\"a\": 1}", 0, "line 1: expected a JSON array"),
            ("[\n{\"a\": 1}", 1, "line 2: the file ends before the array does"),
            ("[\n{\"a\": 1", 0, "line 2: the file ends within the array"),
            ("[{\"a\": 1}\n,]", 1, "line 2: expected a document"),
            ("[{\"a\": 1}]\n\nx", 1, "line 3: there is something after"),
            ("[{\"a\": 1}}", 1, "line 1: expected a comma"),
            ("", 0, "line 1: the file ends"),
        ] {
            let (all, error) = read(text, 3);
            assert_eq!(all.len(), count, "{text}");
            assert!(error.as_ref().is_some_and(|error| error.contains(message)), "{text}: {error:?}");
        }
    }
}
