//! Results that arrive in batches.

use std::ops::Bound;
use std::vec::IntoIter;

use bson::RawDocumentBuf;

use super::blocking::Client;
use super::error::Result;
use crate::native::call::{self, Batch, Close, Find, KvRange, Next};

/// The documents of a find. Ends after the first error.
#[derive(Debug)]
pub struct Documents<'c> {
    client: &'c mut Client,
    ready: IntoIter<RawDocumentBuf>,
    /// The server's cursor; 0 when it has nothing more.
    cursor: u64,
}

impl<'c> Documents<'c> {
    pub(super) fn new(client: &'c mut Client, find: &Find<'_>) -> Result<Self> {
        let Batch { cursor, documents } = client.call(find)?;
        Ok(Documents { client, ready: documents.into_iter(), cursor })
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(document) = self.ready.next() {
                return Some(Ok(document));
            }
            if self.cursor == 0 {
                return None;
            }
            match self.client.call(&Next { cursor: std::mem::take(&mut self.cursor), batch: 0 }) {
                Ok(Batch { cursor, documents }) => {
                    self.cursor = cursor;
                    self.ready = documents.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Drop for Documents<'_> {
    fn drop(&mut self) {
        if self.cursor != 0 {
            // A failure cannot be reported here; the server closes idle cursors itself.
            let connection = &mut self.client.connection;
            if let Ok(id) = connection.submit(&Close { cursor: self.cursor }) {
                connection.forget(id);
            }
        }
    }
}

/// Keys and values of a range. Ends after the first error.
#[derive(Debug)]
pub struct Pairs<'c> {
    client: &'c mut Client,
    table: &'c str,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    descending: bool,
    ready: IntoIter<(Vec<u8>, Vec<u8>)>,
    more: bool,
}

impl<'c> Pairs<'c> {
    pub(super) fn new(
        client: &'c mut Client,
        table: &'c str,
        low: call::Bound<'_>,
        high: call::Bound<'_>,
        descending: bool,
    ) -> Self {
        let (low, high) = (low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec));
        Pairs { client, table, low, high, descending, ready: Vec::new().into_iter(), more: true }
    }

    fn fetch(&mut self) -> Result<()> {
        let low = self.low.as_ref().map(Vec::as_slice);
        let high = self.high.as_ref().map(Vec::as_slice);
        let range =
            KvRange { table: self.table, low, high, entries: 0, bytes: 0, descending: self.descending };
        self.more = false;
        let answer = self.client.call(&range)?;
        if let Some((last, _)) = answer.entries.last() {
            self.more = answer.more;
            let end = if self.descending { &mut self.high } else { &mut self.low };
            *end = Bound::Excluded(last.clone());
        }
        self.ready = answer.entries.into_iter();
        Ok(())
    }
}

impl Iterator for Pairs<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(pair) = self.ready.next() {
                return Some(Ok(pair));
            }
            if !self.more {
                return None;
            }
            if let Err(error) = self.fetch() {
                return Some(Err(error));
            }
        }
    }
}
