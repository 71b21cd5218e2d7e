//! Results that arrive in batches.

use std::ops::Bound;
use std::vec::IntoIter;

use bson::RawDocumentBuf;
use treedb_protocol::call::{self, Batch, Close, Credit, Entries, Find, KvRange, Next, Pull};

use crate::blocking::Client;
use crate::error::Result;

/// The documents of a find. Ends after the first error.
#[derive(Debug)]
pub struct Documents<'c> {
    client: &'c mut Client,
    ready: IntoIter<RawDocumentBuf>,
    /// The server's cursor; 0 when it has nothing more.
    cursor: u64,
}

impl<'c> Documents<'c> {
    pub(crate) fn new(client: &'c mut Client, find: &Find<'_>) -> Result<Self> {
        let first = client.call(find)?;
        Ok(Documents::after(client, first))
    }

    /// The documents of a first batch, and those after it.
    pub(crate) fn after(client: &'c mut Client, first: Batch) -> Self {
        let Batch { cursor, documents } = first;
        Documents { client, ready: documents.into_iter(), cursor }
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
            // A failure cannot be reported here; it has ended the connection.
            let _ = self.client.connection.notify(&Close { cursor: self.cursor });
        }
    }
}

/// Batches that a stream has credit for.
const CREDIT: u32 = 4;

/// The documents of a find, of which the server sends batches while they are iterated. Ends after the first error.
#[derive(Debug)]
pub struct Stream<'c> {
    client: &'c mut Client,
    ready: IntoIter<RawDocumentBuf>,
    /// The server's cursor, and the request that pulls it, while there are more batches.
    pulled: Option<(u64, u64)>,
    /// Batches taken since credit was granted last.
    taken: u32,
}

impl<'c> Stream<'c> {
    pub(crate) fn new(client: &'c mut Client, find: &Find<'_>) -> Result<Self> {
        let Batch { cursor, documents } = client.call(find)?;
        let pulled = match cursor {
            0 => None,
            cursor => {
                let pull = Pull { cursor, batch: find.batch, credit: CREDIT };
                let request = client.connection.submit(&pull)?;
                client.connection.flush()?;
                Some((cursor, request))
            }
        };
        Ok(Stream { client, ready: documents.into_iter(), pulled, taken: 0 })
    }

    fn fetch(&mut self, cursor: u64, request: u64) -> Result<()> {
        let connection = &mut self.client.connection;
        let (Batch { documents, .. }, more) = connection.wait_for_part::<Pull>(request)?;
        self.ready = documents.into_iter();
        if !more {
            return Ok(());
        }
        self.pulled = Some((cursor, request));
        self.taken += 1;
        if self.taken == CREDIT / 2 {
            connection.notify(&Credit { cursor, batches: std::mem::take(&mut self.taken) })?;
        }
        Ok(())
    }
}

impl Iterator for Stream<'_> {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(document) = self.ready.next() {
                return Some(Ok(document));
            }
            let (cursor, request) = self.pulled.take()?;
            if let Err(error) = self.fetch(cursor, request) {
                return Some(Err(error));
            }
        }
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        if let Some((cursor, request)) = self.pulled {
            // What has been sent ahead is read now: until the next request, which may never come, the server would wait to send it, and
            // then close the connection. As of [`Documents`].
            let connection = &mut self.client.connection;
            connection.forget(request);
            let _ = connection.notify(&Close { cursor }).and_then(|()| connection.drain(request));
        }
    }
}

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// What has not been fetched yet of a range of keys.
#[derive(Debug)]
pub(crate) struct Remaining {
    table: String,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    descending: bool,
    more: bool,
}

impl Remaining {
    /// All of a range.
    pub(crate) fn new(
        table: &str,
        low: call::Bound<'_>,
        high: call::Bound<'_>,
        descending: bool,
    ) -> Remaining {
        let (low, high) = (low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec));
        Remaining { table: table.to_owned(), low, high, descending, more: true }
    }

    /// The request for the next batch; `None` if there is nothing more.
    pub(crate) fn request(&self) -> Option<KvRange<'_>> {
        let low = self.low.as_ref().map(Vec::as_slice);
        let high = self.high.as_ref().map(Vec::as_slice);
        let (table, descending) = (&self.table, self.descending);
        self.more.then_some(KvRange { table, low, high, entries: 0, bytes: 0, descending })
    }

    /// The entries of an answer, after which the next batch begins.
    pub(crate) fn take(&mut self, answer: Entries) -> IntoIter<Pair> {
        self.more = answer.more;
        match answer.entries.last() {
            Some((last, _)) => {
                let end = if self.descending { &mut self.high } else { &mut self.low };
                *end = Bound::Excluded(last.clone());
            }
            None => self.more = false,
        }
        answer.entries.into_iter()
    }
}

/// Keys and values of a range. Ends after the first error.
#[derive(Debug)]
pub struct Pairs<'c> {
    client: &'c mut Client,
    range: Remaining,
    ready: IntoIter<Pair>,
}

impl<'c> Pairs<'c> {
    pub(crate) fn new(
        client: &'c mut Client,
        table: &str,
        low: call::Bound<'_>,
        high: call::Bound<'_>,
        descending: bool,
    ) -> Self {
        let range = Remaining::new(table, low, high, descending);
        Pairs { client, range, ready: Vec::new().into_iter() }
    }
}

impl Iterator for Pairs<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(pair) = self.ready.next() {
                return Some(Ok(pair));
            }
            match self.client.call(&self.range.request()?) {
                Ok(answer) => self.ready = self.range.take(answer),
                Err(error) => {
                    self.range.more = false;
                    return Some(Err(error));
                }
            }
        }
    }
}
