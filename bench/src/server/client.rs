//! What the workloads ask of a server, by either protocol.

use std::collections::HashMap;

use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};
use treedb_client::{Prepared, Shape};

#[cfg(feature = "mongo-driver")]
use super::driver::Thread;
use super::process::Process;
use super::record::{self, Form};
use super::wire::Wire;
use crate::Result;

/// How a client speaks with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// MongoDB's.
    Mongo,
    /// MongoDB's, by MongoDB's driver for Rust.
    #[cfg(feature = "mongo-driver")]
    Driver,
    /// TreeDB's.
    Native,
}

/// MongoDB's driver for Rust, if this program is built with it.
#[cfg(feature = "mongo-driver")]
pub(crate) const DRIVER: Option<Protocol> = Some(Protocol::Driver);
/// MongoDB's driver for Rust, if this program is built with it.
#[cfg(not(feature = "mongo-driver"))]
pub(crate) const DRIVER: Option<Protocol> = None;

/// A connection to a server.
pub(crate) enum Client {
    /// By MongoDB's protocol.
    Mongo(Wire),
    /// By MongoDB's protocol and its driver, which has the connections.
    #[cfg(feature = "mongo-driver")]
    Driver(Thread),
    /// By TreeDB's.
    Native(Box<Native>),
}

/// A connection of TreeDB's protocol, with what it has prepared: what its client would do who does the same thing often.
pub(crate) struct Native {
    client: treedb_client::Client,
    insert: Prepared,
    get: Prepared,
    scan: Prepared,
    /// Updates that set one field, by the field.
    sets: HashMap<String, Prepared>,
}

impl Native {
    fn connect(address: &str) -> Result<Native> {
        let mut client = treedb_client::Client::connect(address)?;
        let insert = client.prepare(NAMESPACE, Shape::Insert(&record::shape()?))?;
        let get = client.prepare(NAMESPACE, Shape::Get)?;
        let from = rawdoc! { "$param": 0 };
        let (filter, sort) = (rawdoc! { "_id": { "$gte": from } }, rawdoc! { "_id": 1_i32 });
        let shape = Shape::Find { filter: &filter, sort: Some(&*sort), projection: None };
        let scan = client.prepare(NAMESPACE, shape)?;
        Ok(Native { client, insert, get, scan, sets: HashMap::new() })
    }

    /// Sets a field of the document with this `_id`. Returns how many there were.
    fn set(&mut self, id: &str, field: &str, value: &str) -> Result<u64> {
        let statement = match self.sets.get(field) {
            Some(statement) => *statement,
            None => {
                let (filter, update) =
                    (rawdoc! { "_id": { "$param": 0 } }, set(field, rawdoc! { "$param": 1 })?);
                let statement =
                    self.client.prepare(NAMESPACE, Shape::Update { filter: &filter, update: &update })?;
                self.sets.insert(field.to_owned(), statement);
                statement
            }
        };
        Ok(self.client.execute_update(statement, &treedb_client::values([id, value]))?.matched)
    }
}

/// `{$set: {field: value}}`.
fn set(field: &str, value: impl Into<RawBson>) -> Result<RawDocumentBuf> {
    let mut fields = RawDocumentBuf::new();
    fields.append(bson::raw::CString::try_from(field)?, value.into());
    Ok(rawdoc! { "$set": fields })
}

pub(super) const DATABASE: &str = "ycsb";
pub(super) const COLLECTION: &str = "usertable";
const NAMESPACE: &str = "ycsb.usertable";

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// The server does not answer, or does not speak the protocol.
    pub(crate) fn connect(server: &Process, protocol: Protocol) -> Result<Client> {
        Ok(match protocol {
            Protocol::Mongo => Client::Mongo(server.connect()?),
            #[cfg(feature = "mongo-driver")]
            Protocol::Driver => Client::Driver(server.driver()?.thread(DATABASE, COLLECTION)),
            Protocol::Native => Client::Native(Box::new(Native::connect(server.native()?)?)),
        })
    }

    /// What it takes to insert a record.
    pub(super) fn form(&self) -> Form {
        match self {
            Client::Native(_) => Form::Values,
            _ => Form::Document,
        }
    }

    /// Inserts records, each in its [form](Client::form).
    ///
    /// # Errors
    /// Not all of them were inserted.
    pub(super) fn insert(&mut self, records: &[RawDocumentBuf]) -> Result<()> {
        match self {
            Client::Mongo(wire) => wire.insert(DATABASE, COLLECTION, records.iter().map(AsRef::as_ref))?,
            #[cfg(feature = "mongo-driver")]
            Client::Driver(thread) => thread.insert(records)?,
            Client::Native(native) => {
                let inserted = native.client.execute_insert(native.insert, records, true)?;
                if inserted.count as usize != records.len() {
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
                let found = wire.find_one(DATABASE, COLLECTION, rawdoc! { "_id": id }, see)?;
                found.ok_or_else(|| "not found".into())
            }
            #[cfg(feature = "mongo-driver")]
            Client::Driver(thread) => see(&thread.read(id)?.ok_or("not found")?),
            Client::Native(native) => see(&native.client.execute_get(native.get, id)?.ok_or("not found")?),
        }
    }

    /// Sets a field of the document with this `_id`.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn update(&mut self, id: &str, field: &str, value: &str) -> Result<()> {
        let matched = match self {
            Client::Mongo(wire) => {
                let statement = rawdoc! { "q": { "_id": id }, "u": set(field, value)? };
                let command = rawdoc! { "update": COLLECTION, "updates": [statement], "$db": DATABASE };
                u64::try_from(wire.command(&command)?.get_i32("n")?)?
            }
            #[cfg(feature = "mongo-driver")]
            Client::Driver(thread) => thread.update(id, field, value)?,
            Client::Native(native) => native.set(id, field, value)?,
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
            #[cfg(feature = "mongo-driver")]
            Client::Driver(thread) => thread.scan(from, count, |document| {
                seen += 1;
                see(document)
            })?,
            Client::Native(native) => {
                let values = treedb_client::values([from]);
                for document in native.client.execute_find(native.scan, &values, u64::from(count))? {
                    see(&document?)?;
                    seen += 1;
                }
            }
        }
        Ok(seen)
    }
}
