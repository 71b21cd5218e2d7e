//! What `treedb import` reads: documents from a file, each with the line on which it begins.
//!
//! | module | what it is |
//! |---|---|
//! | `batch` | documents read and parsed on a thread of their own, a batch at a time |
//! | `json_lines` | one document a line |
//! | `json_array` | one array of documents, over any number of lines |
//! | `csv` | rows of comma- or tab-separated cells |
//! | `cell` | what a cell of a row means |
//! | `format` | which of these a file is |

mod batch;
mod cell;
mod csv;
mod format;
mod json_array;
mod json_lines;

pub(super) use batch::{Batch, Batches};
pub(super) use cell::Field;
pub(super) use csv::CsvOptions;
pub(super) use format::{Format, records};

/// The longest record, in bytes: JSON takes up to six bytes for one byte of a string, and a document has up to 16 MiB.
const MAX_RECORD: u64 = 100 << 20;

/// A record: the line on which it begins, from 1, and the document that it is, or why it is none.
type Record = (u64, Result<bson::RawDocumentBuf, String>);

/// Documents of a file.
pub(super) trait Records: Send {
    /// The next record; `None` at the end. An error ends the file: what follows cannot be told apart.
    fn next(&mut self) -> std::io::Result<Option<Record>>;

    /// Bytes of the file read so far, more or less.
    fn position(&self) -> u64;
}

/// The error of a file that ends the reading.
fn unreadable(line: u64, what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, format!("line {line}: {what}"))
}
