//! MongoDB's protocol, by a client that does as little as a client can.

use bson::RawDocumentBuf;

use super::client::{Client, Key};
use super::members::Member;
use super::stores::DATABASE;
use crate::Result;
use crate::server::Wire;

/// A connection, for one collection.
pub(super) struct Bare {
    wire: Wire,
    collection: String,
    /// Whether inserts are answered.
    acknowledged: bool,
}

impl Bare {
    /// Connects.
    pub(super) fn connect(address: &str, collection: &str, acknowledged: bool) -> Result<Bare> {
        Ok(Bare { wire: Wire::connect(address)?, collection: collection.to_owned(), acknowledged })
    }
}

impl Client for Bare {
    async fn insert(&mut self, members: &[Member]) -> Result<()> {
        let documents = members.iter().map(AsRef::as_ref);
        if self.acknowledged {
            self.wire.insert(DATABASE, &self.collection, documents)
        } else {
            self.wire.insert_unacknowledged(DATABASE, &self.collection, documents)
        }
    }

    async fn finish(&mut self) -> Result<()> {
        if self.acknowledged { Ok(()) } else { self.wire.ping() }
    }

    async fn find_one(&mut self, key: Key, value: &str) -> Result<Option<RawDocumentBuf>> {
        self.wire.find_one(DATABASE, &self.collection, key.filter(value), |found| Ok(found.to_owned()))
    }
}
