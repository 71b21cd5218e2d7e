//! Documents whose groups do not fit in memory, as records in scratch files for later passes: the key of the group, its
//! `_id` and the arguments of its accumulators.
//!
//! The first part of a record is the key. The second is a document: `i` is the `_id`, if that is not the key; then for each
//! accumulator `k`, its sort key, if it sorts, and its argument: `v`, or `m` if it is missing. The records of a key are all
//! in one file, in the order of the documents.

use crate::access::TempFile;
use crate::doc::write::Writer;
use crate::doc::{Doc, Elements, Value};
use crate::error::Result;
use crate::query::expr::Found;
use crate::query::spill::{SpillReader, SpillWriter};

use crate::aggregate::group_key::element_of_key;

/// Files that the records are divided among by the hashes of their keys. A later pass reads one file.
const FILES: u64 = 8;

/// The scratch files of one pass.
#[derive(Default)]
pub(super) struct SpillFiles {
    files: Vec<Option<SpillWriter>>,
}

impl SpillFiles {
    /// Appends a record to the file that `hash` chooses; `temp_file` creates it.
    pub(super) fn put(
        &mut self,
        hash: u64,
        key: &[u8],
        record: &[u8],
        temp_file: impl FnOnce() -> Result<Box<dyn TempFile>>,
    ) -> Result<()> {
        self.files.resize_with(FILES as usize, || None);
        // Other bits than those that choose the slot in a hash table, except in very large ones.
        let file = self.files.get_mut((hash >> 32 & (FILES - 1)) as usize);
        let Some(file) = file else { return Ok(()) };
        if file.is_none() {
            *file = Some(SpillWriter::new(temp_file()?));
        }
        file.as_mut().map_or(Ok(()), |file| file.put(key, record))
    }

    /// Readers of the files.
    pub(super) fn readers(self) -> Result<Vec<SpillReader>> {
        self.files.into_iter().flatten().map(SpillWriter::reader).collect()
    }
}

/// Writes the second part of a record.
pub(super) struct RecordWriter(Writer);

impl RecordWriter {
    pub(super) fn new(id: &[u8]) -> Self {
        let mut out = Writer::new(128);
        if !id.is_empty() {
            out.copy(&element_of_key(b"i", id));
        }
        RecordWriter(out)
    }

    pub(super) fn argument(&mut self, value: Found<'_>, key: Option<&[u8]>) {
        if let Some(key) = key {
            self.0.value(b"k", Value::Binary(0, key));
        }
        match value {
            Some(value) => self.0.value(b"v", value),
            None => self.0.null(b"m"),
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

/// The arguments in the second part of a record.
pub(super) struct Arguments<'r> {
    rest: std::iter::Peekable<Elements<'r>>,
}

impl<'r> Arguments<'r> {
    /// The arguments of a record, and the `_id` in it (type and BSON).
    pub(super) fn read(record: &'r [u8]) -> (Self, Vec<u8>) {
        let mut rest = Doc::new(record).elements().peekable();
        let mut id = Vec::new();
        if let Some(found) = rest.next_if(|element| element.name == b"i") {
            id.push(found.kind);
            id.extend_from_slice(found.bytes);
        }
        (Arguments { rest }, id)
    }
}

impl<'r> Iterator for Arguments<'r> {
    type Item = (Found<'r>, Option<Vec<u8>>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = match self.rest.next_if(|element| element.name == b"k").map(|element| element.value()) {
            Some(Value::Binary(_, key)) => Some(key.to_vec()),
            _ => None,
        };
        let value = self.rest.next()?;
        Some(((value.name == b"v").then(|| value.value()), key))
    }
}
