//! JSON lines: one document a line. Empty lines are skipped.

use std::io::{self, BufRead, Read};

use treedb_query::doc::json::from_json;

use super::{MAX_RECORD, Record, Records};

/// The lines of a file.
pub(super) struct JsonLines<R> {
    input: R,
    number: u64,
    position: u64,
    line: Vec<u8>,
}

impl<R: BufRead + Send> Records for JsonLines<R> {
    fn next(&mut self) -> io::Result<Option<Record>> {
        loop {
            self.line.clear();
            let read = (&mut self.input).take(MAX_RECORD).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.position += read as u64;
            if read as u64 == MAX_RECORD && self.line.last() != Some(&b'\n') {
                self.position += self.skip_line()?;
                return Ok(Some((self.number, Err(format!("longer than {} MiB", MAX_RECORD >> 20)))));
            }
            let bytes = match self.number {
                1 => self.line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.line),
                _ => &self.line,
            };
            let parsed = match std::str::from_utf8(bytes).map(str::trim) {
                Ok("") => continue,
                Ok(text) => from_json(text).map_err(|error| error.message),
                Err(error) => Err(format!("not UTF-8: {error}")),
            };
            return Ok(Some((self.number, parsed)));
        }
    }

    fn position(&self) -> u64 {
        self.position
    }
}

impl<R: BufRead> JsonLines<R> {
    pub(super) fn new(input: R) -> Self {
        JsonLines { input, number: 0, position: 0, line: Vec::new() }
    }

    /// Skips the rest of a line.
    fn skip_line(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let ready = self.input.fill_buf()?;
            let end = ready.iter().position(|&byte| byte == b'\n');
            let used = end.map_or(ready.len(), |at| at + 1);
            self.input.consume(used);
            skipped += used as u64;
            if end.is_some() || used == 0 {
                return Ok(skipped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::super::batch::{BATCH_BAD, BadLine, Batch, Batches};
    use super::*;

    fn batches(text: impl Into<Vec<u8>>, size: usize) -> Vec<Batch> {
        let lines = JsonLines::new(io::Cursor::new(text.into()));
        Batches::read(Box::new(lines), size).map(Result::unwrap).collect()
    }

    #[test]
    fn lines_become_documents_with_the_numbers_of_their_lines() {
        let all = batches("\u{feff}{\"a\": 1}\n\n  \r\n{\"a\": 2}\r\n{\"a\": 3}", 2);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].documents, [rawdoc! { "a": 1 }, rawdoc! { "a": 2 }]);
        assert_eq!(all[0].numbers, [1, 4]);
        assert_eq!((&all[1].documents[0], all[1].position), (&rawdoc! { "a": 3 }, 35));
        assert!(batches("", 2).is_empty() && batches("\n\n", 2).is_empty());
    }

    #[test]
    fn bad_lines_are_reported_with_number_position_and_reason() {
        let all = batches(b"{\"a\": 1}\n{\"a\": \n[1]\n{\"\xff\": 1}\n7\n{\"a\": 2}".to_vec(), 100);
        let [batch] = &all[..] else { panic!("{all:?}") };
        assert_eq!(batch.documents.len(), 2);
        let reported: Vec<_> =
            batch.bad.iter().map(|bad| (bad.number, bad.documents_before, bad.reason.as_str())).collect();
        assert!(matches!(reported[..], [(2, 1, _), (3, 1, _), (4, 1, _), (5, 1, _)]), "{reported:?}");
        assert!(reported[0].2.contains("EOF") && reported[1].2.contains("object is needed"), "{reported:?}");
        assert!(reported[2].2.contains("not UTF-8"), "{reported:?}");
    }

    #[test]
    fn a_batch_of_nothing_but_bad_lines_does_not_end_the_reading() {
        let mut text = "x\n".repeat(BATCH_BAD + 1);
        text.push_str("{\"a\": 1}");
        let all = batches(text, 10);
        assert_eq!(all.iter().map(|batch| batch.bad.len()).sum::<usize>(), BATCH_BAD + 1);
        assert_eq!(all.last().unwrap().numbers, [BATCH_BAD as u64 + 2]);
    }

    #[test]
    fn an_endless_line_is_skipped_in_bounded_memory() {
        let endless = io::repeat(b'x').take(MAX_RECORD + (3 << 20));
        let input = io::BufReader::new(endless.chain(&b"\n{\"a\": 1}\n"[..]));
        let all: Vec<Batch> =
            Batches::read(Box::new(JsonLines::new(input)), 10).map(Result::unwrap).collect();
        assert_eq!(
            all[0].bad,
            [BadLine { number: 1, documents_before: 0, reason: "longer than 100 MiB".into() }]
        );
        assert_eq!(all[1].numbers, [2]);
    }
}
