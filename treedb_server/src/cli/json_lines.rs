//! JSON lines: one document a line.
//!
//! [`Batches`] reads and parses on a thread of its own, so that the next batch is ready when the last is stored.
//! Empty lines are skipped. A line that is not a document does not end the iteration: its batch reports it with its
//! number, and the caller decides.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use bson::RawDocumentBuf;
use treedb_query::doc::json::from_json;

/// The longest line, in bytes: JSON takes up to six bytes for one byte of a string, and a document has up to 16 MiB.
const MAX_LINE: u64 = 100 << 20;

/// Bytes of lines after which a batch ends, however few documents it has.
const BATCH_BYTES: u64 = 8 << 20;

/// Bad lines of a batch, after which it ends.
const BATCH_BAD: usize = 1000;

/// A batch of lines.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Their documents.
    pub(super) documents: Vec<RawDocumentBuf>,
    /// The number of each document's line, from 1.
    pub(super) numbers: Vec<u64>,
    /// Lines that are not documents.
    pub(super) bad: Vec<BadLine>,
    /// Bytes of the file up to the end of the batch.
    pub(super) position: u64,
}

/// A line that is not a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    /// Its number, from 1.
    pub(super) number: u64,
    /// Documents of the batch that come before it.
    pub(super) documents_before: usize,
    /// What is wrong with it.
    pub(super) reason: String,
}

/// The batches of a file.
pub(super) struct Batches {
    receiver: Receiver<io::Result<Batch>>,
}

impl Batches {
    /// Reads `input` in batches of at most `size` documents.
    pub(super) fn read(input: impl BufRead + Send + 'static, size: usize) -> Self {
        let (sender, receiver) = sync_channel(2);
        thread::spawn(move || {
            let mut lines = JsonLines { input, number: 0, position: 0, line: Vec::new() };
            loop {
                let batch = lines.batch(size);
                let last = match &batch {
                    Ok(batch) => batch.numbers.is_empty() && batch.bad.is_empty(),
                    Err(_) => true,
                };
                // The receiver is gone: the import has failed.
                if sender.send(batch).is_err() || last {
                    return;
                }
            }
        });
        Batches { receiver }
    }
}

impl Iterator for Batches {
    type Item = io::Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.receiver.recv() {
            Ok(Ok(batch)) if batch.numbers.is_empty() && batch.bad.is_empty() => None,
            Ok(batch) => Some(batch),
            Err(_) => None,
        }
    }
}

struct JsonLines<R> {
    input: R,
    number: u64,
    position: u64,
    line: Vec<u8>,
}

impl<R: BufRead> JsonLines<R> {
    fn batch(&mut self, size: usize) -> io::Result<Batch> {
        let start = self.position;
        let mut batch = Batch::default();
        while batch.documents.len() < size
            && batch.bad.len() < BATCH_BAD
            && self.position - start < BATCH_BYTES
        {
            match self.next()? {
                None => break,
                Some(Ok(document)) => {
                    batch.documents.push(document);
                    batch.numbers.push(self.number);
                }
                Some(Err(reason)) => {
                    let documents_before = batch.documents.len();
                    batch.bad.push(BadLine { number: self.number, documents_before, reason });
                }
            }
        }
        batch.position = self.position;
        Ok(batch)
    }

    /// The next line that is not empty, as a document; `None` at the end of the input.
    fn next(&mut self) -> io::Result<Option<Result<RawDocumentBuf, String>>> {
        loop {
            self.line.clear();
            let read = (&mut self.input).take(MAX_LINE).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.position += read as u64;
            if read as u64 == MAX_LINE && self.line.last() != Some(&b'\n') {
                self.position += self.skip_line()?;
                return Ok(Some(Err(format!("longer than {} MiB", MAX_LINE >> 20))));
            }
            let bytes = match self.number {
                1 => self.line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.line),
                _ => &self.line,
            };
            match std::str::from_utf8(bytes).map(str::trim) {
                Ok("") => {}
                Ok(text) => return Ok(Some(from_json(text).map_err(|error| error.message))),
                Err(error) => return Ok(Some(Err(format!("not UTF-8: {error}")))),
            }
        }
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

    use super::*;

    fn batches(text: impl Into<Vec<u8>>, size: usize) -> Vec<Batch> {
        Batches::read(io::Cursor::new(text.into()), size).map(Result::unwrap).collect()
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
        let endless = io::repeat(b'x').take(MAX_LINE + (3 << 20));
        let input = io::BufReader::new(endless.chain(&b"\n{\"a\": 1}\n"[..]));
        let all: Vec<Batch> = Batches::read(input, 10).map(Result::unwrap).collect();
        assert_eq!(
            all[0].bad,
            [BadLine { number: 1, documents_before: 0, reason: "longer than 100 MiB".into() }]
        );
        assert_eq!(all[1].numbers, [2]);
    }
}
