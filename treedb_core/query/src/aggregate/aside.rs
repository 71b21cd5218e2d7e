//! What a pass over documents has no room for: records of a group's key, its `_id` and the arguments of its
//! accumulators, in scratch files for later passes.
//!
//! A record's first part is the key. The second is a document: `i` is the `_id`, where it is not the key; then for each
//! accumulator `k`, its sort key, if it sorts, and its argument: `v`, or `m` if that is missing. Records of one key stay
//! in one file and in their order.

use crate::access::TempFile;
use crate::doc::write::Writer;
use crate::doc::{Doc, Elements, Value};
use crate::error::Result;
use crate::query::expr::Found;
use crate::query::spill::{SpillReader, SpillWriter};

/// Files that records are spread over by their keys, so that groups that are many times the memory are read few times.
const FILES: u64 = 8;

/// Scratch files being written.
#[derive(Default)]
pub(super) struct Aside {
    files: Vec<Option<SpillWriter>>,
}

impl Aside {
    /// Appends a record to the file that `hash` leads to; `scratch` makes one.
    pub(super) fn put(
        &mut self,
        hash: u64,
        key: &[u8],
        record: &[u8],
        scratch: impl FnOnce() -> Result<Box<dyn TempFile>>,
    ) -> Result<()> {
        self.files.resize_with(FILES as usize, || None);
        // Other bits than those that lead to a slot of a table of any but the largest size.
        let file = self.files.get_mut((hash >> 32 & (FILES - 1)) as usize);
        let Some(file) = file else { return Ok(()) };
        if file.is_none() {
            *file = Some(SpillWriter::new(scratch()?));
        }
        file.as_mut().map_or(Ok(()), |file| file.put(key, record))
    }

    /// The files from their beginnings.
    pub(super) fn readers(self) -> Result<Vec<SpillReader>> {
        self.files.into_iter().flatten().map(SpillWriter::reader).collect()
    }
}

/// A record's second part being written.
pub(super) struct Record(Writer);

impl Record {
    pub(super) fn new(id: &[u8]) -> Self {
        let mut out = Writer::new(128);
        if !id.is_empty() {
            out.copy(&super::identity::element(b"i", id));
        }
        Record(out)
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

/// A record's second part being read.
pub(super) struct Arguments<'r> {
    rest: std::iter::Peekable<Elements<'r>>,
}

impl<'r> Arguments<'r> {
    /// The record, and the `_id` in it (type and BSON).
    pub(super) fn of(record: &'r [u8]) -> (Self, Vec<u8>) {
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
