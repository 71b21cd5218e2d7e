//! Scans a segment's records, to move its live values.

use std::borrow::Cow;

use super::pointer::ValuePtr;
use super::record::ALIGN;
use super::segment::{FIRST, Segment};
use crate::Result;

/// A value in its segment, live or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Its owner's name for it, as given to `append`.
    pub owner: Cow<'a, [u8]>,
    /// The pointer that `append` returned: the value is live if its owner still holds it.
    pub ptr: ValuePtr,
    /// The value.
    pub value: Cow<'a, [u8]>,
}

/// The records of one segment, in the order they were appended.
pub(crate) struct Records<'a> {
    segment: &'a Segment,
    at: u64,
    end: u64,
}

impl<'a> Records<'a> {
    pub(super) fn new(segment: &'a Segment) -> Records<'a> {
        Records { segment, at: FIRST, end: segment.end() }
    }

    fn read(&mut self) -> Result<Record<'a>> {
        let segment = self.segment;
        let header;
        let (value, owner) = if segment.keys.is_some() {
            header = segment.read_header(self.at)?;
            let mut text = Vec::new();
            segment.read_text(self.at, &header, |len| {
                text.resize(len, 0);
                &mut text
            })?;
            let owner = text.split_off(header.len as usize);
            (Cow::Owned(text), Cow::Owned(owner))
        } else {
            header = segment.header(self.at)?;
            let (value, owner) = segment.body(self.at, &header)?;
            (Cow::Borrowed(value), Cow::Borrowed(owner))
        };
        let ptr = ValuePtr {
            segment: segment.id,
            offset: (self.at / ALIGN) as u32,
            len: header.len,
            check: header.check,
        };
        self.at += header.size();
        Ok(Record { owner, ptr, value })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    /// The next record. After an error there is nothing more: where the next record starts is not known then.
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let record = self.read();
        if record.is_err() {
            self.at = self.end;
        }
        Some(record)
    }
}
