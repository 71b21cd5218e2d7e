//! The indexes that a server's collection has, as far as the user may list them.

use bson::{Document, RawDocument, rawdoc};
use treedb_query::error::ErrorCode;

use super::place::read_rest;
use crate::cli::Failure;
use crate::cli::mongo_client::MongoClient;

/// The indexes of a collection.
#[derive(Debug, Default)]
pub(in crate::cli) struct FoundIndexes {
    /// Those that `listIndexes` lists.
    pub(in crate::cli) ordinary: Vec<Document>,
    /// Those of vectors, as `createSearchIndexes` takes them.
    pub(in crate::cli) search: Vec<Document>,
    /// Why those of vectors are left out, in a sentence that names the collection, if the server does not list them.
    pub(in crate::cli) left_out: Option<String>,
}

/// What servers without search indexes answer: MongoDB of several versions, and others that speak its protocol.
const NO_SEARCH_INDEXES: [i32; 7] = [
    59,        // CommandNotFound
    115,       // CommandNotSupported
    238,       // NotImplemented
    304,       // a stage that Amazon DocumentDB does not have
    31_082,    // SearchNotEnabled: another program beside MongoDB has them
    40_324,    // there is no such stage
    6_047_401, // the stage is for Atlas
];

impl FoundIndexes {
    /// Asks a server.
    ///
    /// # Errors
    /// The user may not list indexes at all. Whatever else a server answers instead of its search indexes, everything but these can be dumped.
    pub(in crate::cli) fn of_server(
        client: &mut MongoClient,
        database: &str,
        collection: &str,
    ) -> Result<FoundIndexes, Failure> {
        let mut found = FoundIndexes::default();
        let list = rawdoc! { "listIndexes": collection, "$db": database };
        let Some(first) = client.run_on_existing(&list)? else {
            // It was dropped since it was listed.
            return Ok(found);
        };
        read_rest(client, database, collection, &first, &mut |index| {
            found.ordinary.push(Document::try_from(index)?);
            Ok(())
        })?;
        let list = rawdoc! {
            "aggregate": collection, "pipeline": [{ "$listSearchIndexes": {} }], "cursor": {}, "$db": database,
        };
        let reply = client.ask(&list)?;
        let code = reply.get_i32("code").ok();
        if code.is_some_and(|code| NO_SEARCH_INDEXES.contains(&code)) {
            return Ok(found);
        }
        let first = match client.checked(reply) {
            Ok(first) => first,
            Err(Failure(error)) => {
                let namespace = format!("{database}.{collection}");
                found.left_out = Some(match code == Some(ErrorCode::Unauthorized.number()) {
                    true => left_out_to(&namespace),
                    false => left_out(&namespace, &error),
                });
                return Ok(found);
            }
        };
        read_rest(client, database, collection, &first, &mut |index| {
            found.search.push(search_index(index)?);
            Ok(())
        })?;
        Ok(found)
    }
}

/// That a collection's search indexes are left out because the user may not list them.
pub(in crate::cli) fn left_out_to(namespace: &str) -> String {
    left_out(namespace, "the user may not list them, which takes the action listSearchIndexes on it")
}

fn left_out(namespace: &str, why: &str) -> String {
    format!("{namespace}: its search indexes are left out, if it has any: {why}")
}

/// What creates a search index that is listed.
fn search_index(listed: &RawDocument) -> Result<Document, Failure> {
    let definition = Document::try_from(listed.get_document("latestDefinition")?)?;
    let kind = listed.get_str("type").unwrap_or("vectorSearch");
    Ok(bson::doc! { "name": listed.get_str("name")?, "type": kind, "definition": definition })
}
