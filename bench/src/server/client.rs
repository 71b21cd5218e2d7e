//! What the workloads ask of a server, by either protocol.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_server::client::{self, Prepared, Shape};

use super::process::Process;
use super::wire::Wire;
use crate::Result;

/// How a client speaks with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// MongoDB's.
    Mongo,
    /// TreeDB's.
    Native,
}

/// A connection to a server.
pub(crate) enum Client {
    /// By MongoDB's protocol.
    Mongo(Wire),
    /// By TreeDB's.
    Native(Box<Native>),
}

/// A connection of TreeDB's protocol, with what it has prepared: what its client would do who does the same thing often.
pub(crate) struct Native {
    client: client::Client,
    get: Prepared,
    scan: Prepared,
}

impl Native {
    fn connect(address: &str) -> Result<Native> {
        let mut client = client::Client::connect(address)?;
        let get = client.prepare(NAMESPACE, Shape::Get)?;
        let from = rawdoc! { "$param": 0 };
        let (filter, sort) = (rawdoc! { "_id": { "$gte": from } }, rawdoc! { "_id": 1_i32 });
        let shape = Shape::Find { filter: &filter, sort: Some(&*sort), projection: None };
        let scan = client.prepare(NAMESPACE, shape)?;
        Ok(Native { client, get, scan })
    }
}

const DATABASE: &str = "ycsb";
const COLLECTION: &str = "usertable";
const NAMESPACE: &str = "ycsb.usertable";

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// The server does not answer, or does not speak the protocol.
    pub(crate) fn connect(server: &Process, protocol: Protocol) -> Result<Client> {
        Ok(match protocol {
            Protocol::Mongo => {
                let mut wire = Wire::connect(&server.mongo)?;
                wire.command(&rawdoc! { "hello": 1, "$db": "admin" })?;
                Client::Mongo(wire)
            }
            Protocol::Native => {
                let address = server.native.as_ref().ok_or("the server has no native protocol")?;
                Client::Native(Box::new(Native::connect(address)?))
            }
        })
    }

    /// Inserts documents.
    ///
    /// # Errors
    /// Not all of them were inserted.
    pub(crate) fn insert(&mut self, documents: &[RawDocumentBuf]) -> Result<()> {
        match self {
            Client::Mongo(wire) => {
                let mut array = bson::RawArrayBuf::new();
                documents.iter().for_each(|document| array.push(document.clone()));
                let command = rawdoc! { "insert": COLLECTION, "documents": array, "$db": DATABASE };
                wire.command(&command)?;
            }
            Client::Native(native) => {
                let inserted = native.client.insert_many(NAMESPACE, documents, true)?;
                if !inserted.errors.is_empty() {
                    return Err("not all documents were inserted".into());
                }
            }
        }
        Ok(())
    }

    /// Hands the document with this `_id` to `see`.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn read(&mut self, id: &str, see: impl FnOnce(&RawDocument) -> Result<()>) -> Result<()> {
        match self {
            Client::Mongo(wire) => {
                let filter = rawdoc! { "_id": id };
                let find = rawdoc! {
                    "find": COLLECTION, "filter": filter, "limit": 1_i32, "singleBatch": true, "$db": DATABASE
                };
                let reply = wire.command(&find)?;
                let first = reply.get_document("cursor")?.get_array("firstBatch")?.into_iter().next();
                match first.ok_or("not found")?? {
                    RawBsonRef::Document(document) => see(document),
                    _ => Err("no document".into()),
                }
            }
            Client::Native(native) => see(&native.client.execute_get(native.get, id)?.ok_or("not found")?),
        }
    }

    /// Sets a field of the document with this `_id`.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn update(&mut self, id: &str, field: &str, value: &str) -> Result<()> {
        let filter = rawdoc! { "_id": id };
        let mut set = RawDocumentBuf::new();
        set.append(bson::raw::CString::try_from(field)?, value);
        let update = rawdoc! { "$set": set };
        let matched = match self {
            Client::Mongo(wire) => {
                let statement = rawdoc! { "q": filter, "u": update };
                let command = rawdoc! { "update": COLLECTION, "updates": [statement], "$db": DATABASE };
                u64::try_from(wire.command(&command)?.get_i32("n")?)?
            }
            Client::Native(native) => native.client.update_one(NAMESPACE, &filter, &update)?.matched,
        };
        if matched == 1 { Ok(()) } else { Err("not found".into()) }
    }

    /// Hands `count` documents, from this `_id` on, to `see`, in one batch. Returns how many there were.
    ///
    /// # Errors
    /// Those of the server and of `see`.
    pub(crate) fn scan(
        &mut self,
        from: &str,
        count: u32,
        mut see: impl FnMut(&RawDocument) -> Result<()>,
    ) -> Result<u32> {
        let mut seen = 0;
        match self {
            Client::Mongo(wire) => {
                let count = i32::try_from(count)?;
                let range = rawdoc! { "$gte": from };
                let (filter, sort) = (rawdoc! { "_id": range }, rawdoc! { "_id": 1_i32 });
                let find = rawdoc! {
                    "find": COLLECTION, "filter": filter, "sort": sort, "limit": count, "batchSize": count,
                    "singleBatch": true, "$db": DATABASE
                };
                let reply = wire.command(&find)?;
                for document in reply.get_document("cursor")?.get_array("firstBatch")? {
                    see(document?.as_document().ok_or("no document")?)?;
                    seen += 1;
                }
            }
            Client::Native(native) => {
                let values = client::values([from]);
                for document in native.client.execute_find(native.scan, &values, u64::from(count))? {
                    see(&document?)?;
                    seen += 1;
                }
            }
        }
        Ok(seen)
    }
}
