//! Requests with one answer, which both clients make alike: each is written once, and becomes a method of [`Client`] that waits and one of
//! `AsyncClient` that is awaited.

use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};
use treedb_protocol::call::{
    Ack, Count, CreateIndex, Delete, DropIndex, Execute, Execution, Forget, Get, GetWith, Insert, InsertWith,
    Inserted, KvBatch, KvDelete, KvGet, KvPut, ListIndexes, Neighbor, Op, Prepare, Prepared, Shape, Update,
    UpdateSearchIndex, UpdateWith, Updated, VectorSearch, values,
};

#[cfg(feature = "async")]
use crate::asynchronous::AsyncClient;
use crate::blocking::{Client, id_document};
use crate::error::Result;

/// Methods of both clients: `fn name[generics](arguments) -> answer { |ack| request }`, where `ack` is when the client's writes are acknowledged.
macro_rules! requests {
    ($(
        $(#[$doc:meta])*
        fn $name:ident $([$($generics:tt)*])? ($($argument:ident: $type:ty),* $(,)?) -> $answer:ty {
            |$ack:pat_param| $request:expr
        }
    )*) => {
        impl Client {
            $(
                $(#[$doc])*
                pub fn $name $(<$($generics)*>)? (&mut self, $($argument: $type),*) -> Result<$answer> {
                    let $ack: Ack = self.ack;
                    self.call(&$request)
                }
            )*
        }

        #[cfg(feature = "async")]
        impl AsyncClient {
            $(
                $(#[$doc])*
                pub async fn $name $(<$($generics)*>)? (&self, $($argument: $type),*) -> Result<$answer> {
                    let $ack: Ack = self.ack;
                    self.call(&$request).await
                }
            )*
        }
    };
}

requests! {
    /// Inserts documents in one transaction. Refused documents are listed in the answer; if `ordered`, the
    /// first of them ends the insert, and those before it stay.
    ///
    /// # Errors
    /// Nothing was inserted.
    fn insert_many[D: AsRef<RawDocument>](namespace: &str, documents: &[D], ordered: bool) -> Inserted {
        |ack| Insert { namespace, documents: documents.iter().map(AsRef::as_ref).collect(), ordered, ack }
    }

    /// The document with this `_id`.
    ///
    /// # Errors
    /// The server's, or the connection's.
    fn get(namespace: &str, id: impl Into<RawBson>) -> Option<RawDocumentBuf> {
        |_| Get { namespace, id: &id_document(id) }
    }

    /// Prepares a statement, to be executed on this connection with values only. See [`Shape`].
    ///
    /// # Errors
    /// A parameter is where it cannot be; the connection has too many statements.
    fn prepare(namespace: &str, shape: Shape<'_>) -> Prepared {
        |_| Prepare { namespace, shape }
    }

    /// Forgets a statement; false if it had been forgotten.
    ///
    /// # Errors
    /// The connection's.
    fn forget(statement: Prepared) -> bool {
        |_| Forget { statement: statement.statement }
    }

    /// Executes a statement of any kind with what it takes.
    ///
    /// # Errors
    /// Not as many values as the statement takes; as the request that was prepared.
    fn execute[E: Execution](statement: Prepared, with: E) -> E::Answer {
        |_| Execute { statement: statement.statement, with }
    }

    /// The document with this `_id`, by a statement ([`Shape::Get`]).
    ///
    /// # Errors
    /// As [`Self::execute`].
    fn execute_get(statement: Prepared, id: impl Into<RawBson>) -> Option<RawDocumentBuf> {
        |_| Execute { statement: statement.statement, with: GetWith { values: &values([id]) } }
    }

    /// Inserts documents of one shape, by a statement ([`Shape::Insert`]): for each the values. As [`Self::insert_many`].
    ///
    /// # Errors
    /// As [`Self::execute`].
    fn execute_insert[D: AsRef<RawDocument>](statement: Prepared, rows: &[D], ordered: bool) -> Inserted {
        |ack| Execute {
            statement: statement.statement,
            with: InsertWith { rows: rows.iter().map(AsRef::as_ref).collect(), ordered, ack },
        }
    }

    /// Changes the first document that matches, by a statement ([`Shape::Update`]).
    ///
    /// # Errors
    /// As [`Self::execute`].
    fn execute_update(statement: Prepared, values: &RawDocument) -> Updated {
        |ack| Execute {
            statement: statement.statement,
            with: UpdateWith { values, multi: false, upsert: false, ack },
        }
    }

    /// Changes the first document that matches: with operators (`{$set: {a: 1}}`), or as a replacement.
    ///
    /// # Errors
    /// The filter or the update is not valid.
    fn update_one(namespace: &str, filter: &RawDocument, update: &RawDocument) -> Updated {
        |ack| Update { ack, ..Update::one(namespace, filter, update) }
    }

    /// Changes every document that matches.
    ///
    /// # Errors
    /// The filter or the update is not valid; nothing was changed then.
    fn update_many(namespace: &str, filter: &RawDocument, update: &RawDocument) -> Updated {
        |ack| Update { ack, multi: true, ..Update::one(namespace, filter, update) }
    }

    /// Deletes the documents that match, `limit` of them at most (0: all), and returns how many they were.
    ///
    /// # Errors
    /// The filter is not valid.
    fn delete(namespace: &str, filter: &RawDocument, limit: u64) -> u64 {
        |ack| Delete { namespace, limit, filter, ack }
    }

    /// How many documents match.
    ///
    /// # Errors
    /// The filter is not valid.
    fn count(namespace: &str, filter: &RawDocument) -> u64 {
        |_| Count { namespace, skip: 0, limit: 0, filter }
    }

    /// The `limit` documents whose vectors are nearest to `vector` by a search index; see [`VectorSearch`] for a filter, a projection, a greatest distance and more.
    ///
    /// # Errors
    /// There is no such index, or it cannot compare the vector.
    fn vector_search(namespace: &str, index: &str, vector: &[f32], limit: u32) -> Vec<Neighbor> {
        |_| VectorSearch {
            namespace,
            index,
            limit,
            candidates: 0,
            exact: false,
            vector: vector.to_vec(),
            filter: &rawdoc! {},
            projection: None,
            within: None,
            path: None,
        }
    }

    /// Creates an index, waits until it is ready, and returns its name: `{key: {year: 1}}` as `createIndexes` takes it, or
    /// `{type: "vectorSearch", ..}` as `createSearchIndexes` does.
    ///
    /// # Errors
    /// The specification is not valid, or another index has its name.
    fn create_index(namespace: &str, spec: &RawDocument) -> String {
        |_| CreateIndex { namespace, spec }
    }

    /// The indexes of a collection: those of `listIndexes`, then those of `$listSearchIndexes`, unless the user may not list these
    /// ([`ListIndexes::every_kind`] makes that an error).
    ///
    /// # Errors
    /// The server's, or the connection's.
    fn list_indexes(namespace: &str) -> Vec<RawDocumentBuf> {
        |_| ListIndexes { namespace, every_kind: false }
    }

    /// Drops an index of any kind.
    ///
    /// # Errors
    /// There is no such index, or it is the one on `_id`.
    fn drop_index(namespace: &str, name: &str) -> () {
        |_| DropIndex { namespace, name }
    }

    /// Gives a search index another definition, `{fields: [..]}`, and waits until it is ready.
    ///
    /// # Errors
    /// There is no such index, or the definition is not valid.
    fn update_search_index(namespace: &str, name: &str, definition: &RawDocument) -> () {
        |_| UpdateSearchIndex { namespace, name, definition }
    }

    /// The value of a key. A table that does not exist has no keys.
    ///
    /// # Errors
    /// The server's, or the connection's.
    fn kv_get(table: &str, key: &[u8]) -> Option<Vec<u8>> {
        |_| KvGet { table, key }
    }

    /// Sets the value of a key. Creates the table if it does not exist.
    ///
    /// # Errors
    /// The key is too long.
    fn kv_put(table: &str, key: &[u8], value: &[u8]) -> () {
        |ack| KvPut { table, key, value, ack }
    }

    /// Deletes a key; false if it was not there.
    ///
    /// # Errors
    /// The server's, or the connection's.
    fn kv_delete(table: &str, key: &[u8]) -> bool {
        |ack| KvDelete { table, key, ack }
    }

    /// Puts and deletes that happen all or not at all.
    ///
    /// # Errors
    /// A key is too long; nothing happened then.
    fn kv_batch(table: &str, ops: Vec<Op<'_>>) -> () {
        |ack| KvBatch { table, ops, ack }
    }
}
