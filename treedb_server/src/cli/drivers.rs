//! What `treedb import`, `export` and `find` do through the port of MongoDB's drivers.

use std::collections::VecDeque;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_collections::Namespace;

use super::Failure;
use super::dump::{BATCH_BYTES, FoundIndexes, array, batch, create_index};
use super::mongo_client::{MongoClient, Uri};
use super::target::{IndexSpecs, Refused, Search};

/// A server, as drivers see it.
pub(super) struct Drivers(MongoClient);

/// How many of the first documents fit into one request: one at least.
fn fitting(documents: &[RawDocumentBuf]) -> usize {
    let mut bytes = 0;
    let fits = |document: &&RawDocumentBuf| {
        bytes += document.as_bytes().len();
        bytes <= BATCH_BYTES
    };
    documents.iter().take_while(fits).count().max(1).min(documents.len())
}

impl Drivers {
    /// Connects, and authenticates as the user of the URI.
    pub(super) fn connect(uri: &Uri) -> Result<Drivers, Failure> {
        Ok(Drivers(MongoClient::connect(uri)?))
    }

    /// Inserts documents. Returns how many were inserted, and which were refused; if `ordered`, the first refusal ends the insert.
    pub(super) fn insert(
        &mut self,
        namespace: &str,
        documents: &[RawDocumentBuf],
        ordered: bool,
    ) -> Result<(u64, Vec<Refused>), Failure> {
        let name = Namespace::parse(namespace)?;
        let (mut inserted, mut refused, mut before, mut rest) = (0, Vec::new(), 0, documents);
        while !rest.is_empty() && (refused.is_empty() || !ordered) {
            let (now, later) = rest.split_at(fitting(rest));
            let reply = self.0.run(&rawdoc! {
                "insert": name.collection(), "documents": array(now), "ordered": ordered, "$db": name.database(),
            })?;
            inserted += u64::try_from(reply.get_i32("n")?).unwrap_or_default();
            if let Ok(errors) = reply.get_array("writeErrors") {
                for error in errors {
                    let RawBsonRef::Document(error) = error? else { continue };
                    let at = usize::try_from(error.get_i32("index")?).unwrap_or_default();
                    refused.push((before + at, error.get_str("errmsg").unwrap_or_default().to_owned()));
                }
            }
            before += now.len();
            rest = later;
        }
        Ok((inserted, refused))
    }

    /// Whether there is such a collection or view.
    pub(super) fn has(&mut self, namespace: &str) -> Result<bool, Failure> {
        let name = Namespace::parse(namespace)?;
        let command = rawdoc! {
            "listCollections": 1, "filter": { "name": name.collection() }, "nameOnly": true, "authorizedCollections": true,
            "$db": name.database(),
        };
        let mut found = false;
        batch(&self.0.run(&command)?, "firstBatch", &mut |_| {
            found = true;
            Ok(())
        })?;
        Ok(found)
    }

    /// How many documents match.
    pub(super) fn count(&mut self, namespace: &str, filter: &RawDocument) -> Result<u64, Failure> {
        let name = Namespace::parse(namespace)?;
        let command =
            rawdoc! { "count": name.collection(), "query": filter.to_owned(), "$db": name.database() };
        let reply = self.0.run(&command)?;
        let n = reply.get("n")?.and_then(|n| n.as_i64().or(n.as_i32().map(i64::from)));
        Ok(n.and_then(|n| u64::try_from(n).ok()).unwrap_or_default())
    }

    /// The documents found.
    pub(super) fn find(&mut self, namespace: &str, search: Search) -> Result<Found<'_>, Failure> {
        let name = Namespace::parse(namespace)?;
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let mut command = rawdoc! {
            "find": name.collection(), "filter": search.filter, "skip": number(search.skip), "limit": number(search.limit),
            "$db": name.database(),
        };
        if let Some(sort) = search.sort {
            command.append(bson::raw::cstr!("sort"), sort);
        }
        if let Some(projection) = search.projection {
            command.append(bson::raw::cstr!("projection"), projection);
        }
        let first = self.0.run(&command)?;
        let mut found = Found { client: &mut self.0, name, cursor: 0, ready: VecDeque::new() };
        found.keep(&first, "firstBatch")?;
        Ok(found)
    }

    /// The specifications of all indexes.
    pub(super) fn index_specs(&mut self, namespace: &str) -> Result<IndexSpecs, Failure> {
        let name = Namespace::parse(namespace)?;
        let found = FoundIndexes::of_server(&mut self.0, name.database(), name.collection())?;
        let specs = found.ordinary.iter().chain(&found.search).map(RawDocumentBuf::try_from);
        Ok(IndexSpecs { specs: specs.collect::<Result<_, _>>()?, left_out: found.left_out })
    }

    /// Creates an index of any kind and waits until it is ready.
    pub(super) fn create_index(&mut self, namespace: &str, spec: &RawDocument) -> Result<(), Failure> {
        let name = Namespace::parse(namespace)?;
        create_index(&mut self.0, name.database(), name.collection(), spec)
    }
}

/// Documents of a cursor.
pub(super) struct Found<'c> {
    client: &'c mut MongoClient,
    name: Namespace,
    /// Its number, or 0 if it has ended.
    cursor: i64,
    ready: VecDeque<RawDocumentBuf>,
}

impl Found<'_> {
    fn keep(&mut self, reply: &RawDocument, field: &str) -> Result<(), Failure> {
        let ready = &mut self.ready;
        self.cursor = batch(reply, field, &mut |document| {
            ready.push_back(document.to_owned());
            Ok(())
        })?;
        Ok(())
    }

    fn more(&mut self) -> Result<(), Failure> {
        // After an error there is nothing more.
        let cursor = std::mem::take(&mut self.cursor);
        let command =
            rawdoc! { "getMore": cursor, "collection": self.name.collection(), "$db": self.name.database() };
        let reply = self.client.run(&command)?;
        self.keep(&reply, "nextBatch")
    }
}

impl Iterator for Found<'_> {
    type Item = Result<RawDocumentBuf, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && self.cursor != 0 {
            if let Err(error) = self.more() {
                return Some(Err(error));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

impl Drop for Found<'_> {
    fn drop(&mut self) {
        if self.cursor != 0 {
            // Of a cursor that nobody reads to its end the server need not keep the snapshot.
            let _ = self.client.run(&rawdoc! {
                "killCursors": self.name.collection(), "cursors": [self.cursor], "$db": self.name.database(),
            });
        }
    }
}
