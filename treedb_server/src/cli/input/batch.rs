//! Batches of records, read and parsed on a thread of their own, so that the next batch is ready when the last is stored.
//!
//! A record that is not a document does not end the reading: its batch reports it with its line, and the caller decides.

use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use bson::RawDocumentBuf;

use super::Records;

/// Bytes of the file after which a batch ends, however few documents it has.
const BATCH_BYTES: u64 = 8 << 20;

/// Bad records of a batch, after which it ends.
pub(super) const BATCH_BAD: usize = 1000;

/// A batch of records.
#[derive(Debug, Default)]
pub(in crate::cli) struct Batch {
    /// Their documents.
    pub(in crate::cli) documents: Vec<RawDocumentBuf>,
    /// The line of each document, from 1.
    pub(in crate::cli) numbers: Vec<u64>,
    /// Records that are not documents.
    pub(in crate::cli) bad: Vec<BadLine>,
    /// Bytes of the file up to the end of the batch.
    pub(in crate::cli) position: u64,
}

/// A record that is not a document.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct BadLine {
    /// Its line, from 1.
    pub(in crate::cli) number: u64,
    /// Documents of the batch that come before it.
    pub(in crate::cli) documents_before: usize,
    /// What is wrong with it.
    pub(in crate::cli) reason: String,
}

/// The batches of a file.
pub(in crate::cli) struct Batches {
    receiver: Receiver<io::Result<Batch>>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.bad.is_empty()
    }
}

impl Batches {
    /// Reads `records` in batches of at most `size` documents.
    pub(in crate::cli) fn read(mut records: Box<dyn Records>, size: usize) -> Self {
        let (sender, receiver) = sync_channel(2);
        thread::spawn(move || {
            loop {
                let (batch, failed) = batch(&mut *records, size);
                let last = batch.is_empty();
                // If there is no receiver, the import has failed.
                if sender.send(Ok(batch)).is_err() {
                    return;
                }
                if let Some(error) = failed {
                    let _ = sender.send(Err(error));
                    return;
                }
                if last {
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
        loop {
            match self.receiver.recv() {
                // The end, or nothing before an error.
                Ok(Ok(batch)) if batch.is_empty() => {}
                Ok(batch) => return Some(batch),
                Err(_) => return None,
            }
        }
    }
}

/// The next batch, and the error that ended the reading after it.
fn batch(records: &mut dyn Records, size: usize) -> (Batch, Option<io::Error>) {
    let start = records.position();
    let mut batch = Batch::default();
    let mut failed = None;
    while batch.documents.len() < size
        && batch.bad.len() < BATCH_BAD
        && records.position() - start < BATCH_BYTES
    {
        match records.next() {
            Ok(None) => break,
            Ok(Some((number, Ok(document)))) => {
                batch.documents.push(document);
                batch.numbers.push(number);
            }
            Ok(Some((number, Err(reason)))) => {
                let documents_before = batch.documents.len();
                batch.bad.push(BadLine { number, documents_before, reason });
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    batch.position = records.position();
    (batch, failed)
}
