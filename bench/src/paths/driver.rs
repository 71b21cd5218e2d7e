//! MongoDB's protocol, by MongoDB's driver for Rust: its methods for collections, and commands that the program writes itself.

use bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, doc, rawdoc};
use mongodb::{Collection, Database};

use super::client::{Client, Key};
use super::members::Member;
use super::stores::DATABASE;
use crate::Result;
use crate::server::Process;

/// The methods of a collection: `insert_many` and `find_one`.
pub(super) struct Methods(Collection<RawDocumentBuf>);

impl Methods {
    /// Of a collection.
    pub(super) fn new(server: &Process, collection: &str) -> Result<Methods> {
        Ok(Methods(server.driver()?.database(DATABASE).collection(collection)))
    }
}

impl Client for Methods {
    async fn insert(&mut self, members: &[Member]) -> Result<()> {
        let inserted = self.0.insert_many(members.iter().map(|member| &member.document)).await?;
        if inserted.inserted_ids.len() == members.len() {
            Ok(())
        } else {
            Err("not all documents were inserted".into())
        }
    }

    async fn find_one(&mut self, key: Key, value: &str) -> Result<Option<RawDocumentBuf>> {
        let filter = match key {
            Key::Id => doc! { "_id": value },
            Key::Email => doc! { "email": value },
        };
        Ok(self.0.find_one(filter).await?)
    }
}

/// Commands: `run_raw_command`.
pub(super) struct Commands {
    database: Database,
    collection: String,
}

impl Commands {
    /// For a collection.
    pub(super) fn new(server: &Process, collection: &str) -> Result<Commands> {
        let database = server.driver()?.database(DATABASE);
        Ok(Commands { database, collection: collection.to_owned() })
    }

    async fn run(&self, command: RawDocumentBuf) -> Result<Document> {
        Ok(self.database.run_raw_command(command).await?)
    }
}

impl Client for Commands {
    async fn insert(&mut self, members: &[Member]) -> Result<()> {
        let documents: RawArrayBuf = members.iter().map(|member| &member.document).collect();
        let insert = rawdoc! { "insert": self.collection.as_str(), "documents": documents };
        let reply = self.run(insert).await?;
        if reply.get_i32("n")? as usize == members.len() {
            Ok(())
        } else {
            Err(format!("not all documents were inserted: {reply}").into())
        }
    }

    async fn find_one(&mut self, key: Key, value: &str) -> Result<Option<RawDocumentBuf>> {
        let filter = key.filter(value);
        let find = rawdoc! {
            "find": self.collection.as_str(), "filter": filter, "limit": 1_i32, "singleBatch": true
        };
        let reply = self.run(find).await?;
        match reply.get_document("cursor")?.get_array("firstBatch")?.first() {
            None => Ok(None),
            Some(Bson::Document(found)) => Ok(Some(RawDocumentBuf::try_from(found)?)),
            Some(_) => Err("no document".into()),
        }
    }
}
