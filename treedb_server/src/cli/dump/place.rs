//! Where documents come from and go to: a directory, or a server behind MongoDB's protocol.

use std::path::PathBuf;

use bson::{Document, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use clap::Args;
use treedb_collections::{Database, FindRequest, IndexSpec, Namespace};

use super::found_indexes::FoundIndexes;
use crate::cli::key::KeyArgs;
use crate::cli::mongo_client::{MongoClient, Uri};
use crate::cli::target::must_exist;
use crate::cli::user::UserArgs;
use crate::cli::{Failure, error_hints};

/// Bytes of documents in one request.
pub(in crate::cli) const BATCH_BYTES: usize = 12 << 20;
/// Documents in one request.
const BATCH: usize = 1_000;

/// A directory or a server.
#[derive(Debug, Args)]
pub(in crate::cli) struct PlaceArgs {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    pub(in crate::cli) key: KeyArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Location {
    /// The database's directory, which no server may have open
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The server whose drivers' port this is
    #[arg(long, value_name = "mongodb://HOST:PORT", conflicts_with = "key_file")]
    uri: Option<Uri>,
}

/// A collection or a view.
#[derive(Debug)]
pub(in crate::cli) struct Listed {
    pub(in crate::cli) name: String,
    pub(super) options: Document,
    pub(super) uuid: Option<String>,
}

impl Listed {
    pub(in crate::cli) fn is_view(&self) -> bool {
        self.options.contains_key("viewOn")
    }
}

/// An open database.
pub(in crate::cli) enum Place {
    Directory(Database),
    Server(MongoClient),
}

impl PlaceArgs {
    /// The directory, if it is one.
    pub(in crate::cli) fn dir(&self) -> Option<&PathBuf> {
        self.location.dir.as_ref()
    }

    /// Opens it; `create` to restore something, into a new directory too.
    pub(in crate::cli) fn open(&self, create: bool) -> Result<Place, Failure> {
        match (&self.location.dir, &self.location.uri) {
            (_, Some(uri)) => Ok(Place::Server(MongoClient::connect(&self.user.of(uri)?)?)),
            (Some(dir), None) => {
                if !create {
                    must_exist(dir)?;
                }
                let options = if create { self.key.restore_options()? } else { self.key.options()? };
                let database = Database::open_with(dir, options);
                Ok(Place::Directory(database.map_err(|error| error_hints::directory(dir, &error))?))
            }
            // clap requires one of the two.
            (None, None) => Err(Failure("--dir DIR or --uri mongodb://HOST:PORT is required".to_owned())),
        }
    }
}

fn full(database: &str, collection: &str) -> Result<String, Failure> {
    Ok(Namespace::new(database, collection)?.as_str().to_owned())
}

pub(in crate::cli) fn array(documents: &[RawDocumentBuf]) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    documents.iter().for_each(|document| array.push(document.as_ref() as &RawDocument));
    array
}

/// The documents of a cursor's batch, and the number of the cursor.
pub(in crate::cli) fn batch(
    reply: &RawDocument,
    name: &str,
    each: &mut dyn FnMut(&RawDocument) -> Result<(), Failure>,
) -> Result<i64, Failure> {
    let cursor = reply.get_document("cursor")?;
    for document in cursor.get_array(name)? {
        if let RawBsonRef::Document(document) = document? {
            each(document)?;
        }
    }
    Ok(cursor.get_i64("id")?)
}

/// Everything that a command with a cursor returns.
pub(super) fn read_all(
    client: &mut MongoClient,
    database: &str,
    collection: &str,
    command: &RawDocument,
    each: &mut dyn FnMut(&RawDocument) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let first = client.run(command)?;
    read_rest(client, database, collection, &first, each)
}

/// Everything that a cursor returns whose first batch is in a reply.
pub(super) fn read_rest(
    client: &mut MongoClient,
    database: &str,
    collection: &str,
    first: &RawDocument,
    each: &mut dyn FnMut(&RawDocument) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut cursor = batch(first, "firstBatch", each)?;
    while cursor != 0 {
        let more = rawdoc! { "getMore": cursor, "collection": collection, "$db": database };
        cursor = batch(&client.run(&more)?, "nextBatch", each)?;
    }
    Ok(())
}

/// Creates an index of any kind, of a server's collection, and waits until it is ready.
pub(in crate::cli) fn create_index(
    client: &mut MongoClient,
    database: &str,
    collection: &str,
    spec: &RawDocument,
) -> Result<(), Failure> {
    let indexes = array(&[spec.to_owned()]);
    let command = match spec.get_str("type") {
        Ok(_) => rawdoc! { "createSearchIndexes": collection, "indexes": indexes, "$db": database },
        Err(_) => rawdoc! { "createIndexes": collection, "indexes": indexes, "$db": database },
    };
    client.run(&command)?;
    Ok(())
}

impl Place {
    /// The databases that a dump has: not what servers keep for themselves.
    pub(in crate::cli) fn databases(&mut self) -> Result<Vec<String>, Failure> {
        let mut names = match self {
            Place::Directory(database) => database.list_databases()?,
            Place::Server(client) => {
                let reply = client.run(&rawdoc! { "listDatabases": 1, "nameOnly": true, "$db": "admin" })?;
                let mut names = Vec::new();
                for listed in reply.get_array("databases")? {
                    if let RawBsonRef::Document(listed) = listed? {
                        names.push(listed.get_str("name")?.to_owned());
                    }
                }
                names
            }
        };
        names.retain(|name| name != "local" && name != "config");
        Ok(names)
    }

    /// The collections and views of a database, but for those that servers keep for themselves.
    pub(in crate::cli) fn collections(&mut self, of: &str) -> Result<Vec<Listed>, Failure> {
        let mut listed = Vec::new();
        match self {
            Place::Directory(database) => {
                for info in database.list_collections(of)? {
                    let uuid =
                        info.uuid.map(|uuid| uuid.bytes().iter().map(|byte| format!("{byte:02x}")).collect());
                    let name = info.namespace.collection().to_owned();
                    listed.push(Listed { name, options: info.options, uuid });
                }
            }
            Place::Server(client) => {
                let command = rawdoc! { "listCollections": 1, "$db": of };
                let mut each = |found: &RawDocument| {
                    let uuid = found.get_document("info").and_then(|info| info.get_binary("uuid")).ok();
                    listed.push(Listed {
                        name: found.get_str("name")?.to_owned(),
                        options: found
                            .get_document("options")
                            .map_or(Ok(Document::new()), Document::try_from)?,
                        uuid: uuid.map(|uuid| uuid.bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
                    });
                    Ok(())
                };
                read_all(client, of, "$cmd.listCollections", &command, &mut each)?;
            }
        }
        listed.retain(|listed| !listed.name.starts_with("system."));
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    /// The indexes of a collection.
    pub(super) fn indexes(&mut self, database: &str, collection: &str) -> Result<FoundIndexes, Failure> {
        match self {
            Place::Directory(open) => {
                let collection = open.collection(&full(database, collection)?)?;
                let search = collection.search_indexes()?.unwrap_or_default();
                let search =
                    search.into_iter().map(|index| Document::try_from(index.spec.as_ref() as &RawDocument));
                Ok(FoundIndexes {
                    ordinary: collection.indexes()?.unwrap_or_default(),
                    search: search.collect::<Result<_, _>>()?,
                    left_out: None,
                })
            }
            Place::Server(client) => FoundIndexes::of_server(client, database, collection),
        }
    }

    /// How many documents there are, more or less.
    pub(super) fn count(&mut self, database: &str, collection: &str) -> Result<u64, Failure> {
        match self {
            Place::Directory(open) => Ok(open.collection(&full(database, collection)?)?.len()?),
            Place::Server(client) => {
                let reply = client.run(&rawdoc! { "count": collection, "$db": database })?;
                let n = reply.get("n")?.and_then(|n| n.as_i64().or(n.as_i32().map(i64::from)));
                Ok(n.and_then(|n| u64::try_from(n).ok()).unwrap_or_default())
            }
        }
    }

    /// Every document of a collection, as of one moment.
    pub(super) fn read(
        &mut self,
        database: &str,
        collection: &str,
        each: &mut dyn FnMut(&RawDocument) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            Place::Directory(open) => {
                let found = open.collection(&full(database, collection)?)?.find(FindRequest::default())?;
                for document in found {
                    each(&document?)?;
                }
                Ok(())
            }
            Place::Server(client) => {
                let command =
                    rawdoc! { "find": collection, "filter": {}, "noCursorTimeout": true, "$db": database };
                read_all(client, database, collection, &command, each)
            }
        }
    }

    /// Drops a collection or a view, if there is one.
    pub(super) fn drop_collection(&mut self, database: &str, collection: &str) -> Result<(), Failure> {
        match self {
            Place::Directory(open) => drop(open.drop_collection(&full(database, collection)?)?),
            Place::Server(client) => drop(client.run(&rawdoc! { "drop": collection, "$db": database })?),
        }
        Ok(())
    }

    /// Creates a collection or a view.
    pub(super) fn create(
        &mut self,
        database: &str,
        collection: &str,
        options: Document,
    ) -> Result<(), Failure> {
        match self {
            Place::Directory(open) => drop(open.create_collection(&full(database, collection)?, options)?),
            Place::Server(client) => {
                let mut command = bson::doc! { "create": collection };
                command.extend(options);
                command.insert("$db", database);
                client.run(&RawDocumentBuf::try_from(&command)?)?;
            }
        }
        Ok(())
    }

    /// Inserts documents. Returns the reasons why some were refused.
    pub(super) fn insert(
        &mut self,
        database: &str,
        collection: &str,
        documents: &[RawDocumentBuf],
    ) -> Result<Vec<String>, Failure> {
        match self {
            Place::Directory(open) => {
                // What is in a dump was stored somewhere: it is not for a validator to lose it.
                let into = open.collection(&full(database, collection)?)?.without_validation();
                let outcome = into.insert_many(documents, false)?;
                Ok(outcome.errors.into_iter().map(|(_, error)| error.message).collect())
            }
            Place::Server(client) => {
                let reply = client.run(&rawdoc! {
                    "insert": collection, "documents": array(documents), "ordered": false, "bypassDocumentValidation": true,
                    "$db": database,
                })?;
                let mut refused = Vec::new();
                if let Ok(errors) = reply.get_array("writeErrors") {
                    for error in errors {
                        let RawBsonRef::Document(error) = error? else { continue };
                        refused.push(error.get_str("errmsg").unwrap_or_default().to_owned());
                    }
                }
                Ok(refused)
            }
        }
    }

    /// Creates an index.
    pub(super) fn create_index(
        &mut self,
        database: &str,
        collection: &str,
        spec: &Document,
    ) -> Result<(), Failure> {
        let spec = RawDocumentBuf::try_from(spec)?;
        match self {
            Place::Directory(open) => {
                open.collection(&full(database, collection)?)?
                    .create_index(IndexSpec::from_document(&spec))?;
            }
            Place::Server(client) => create_index(client, database, collection, &spec)?,
        }
        Ok(())
    }

    /// Everything written is on disk, or acknowledged by the server.
    pub(super) fn close(self) -> Result<(), Failure> {
        match self {
            Place::Directory(database) => Ok(database.close()?),
            Place::Server(_) => Ok(()),
        }
    }
}

/// Documents on their way into a place.
#[derive(Default)]
pub(super) struct Load {
    documents: Vec<RawDocumentBuf>,
    bytes: usize,
}

impl Load {
    /// Adds a document; true if it is time to insert them.
    pub(super) fn add(&mut self, document: RawDocumentBuf) -> bool {
        self.bytes += document.as_bytes().len();
        self.documents.push(document);
        self.bytes >= BATCH_BYTES || self.documents.len() >= BATCH
    }

    /// The documents.
    pub(super) fn take(&mut self) -> Vec<RawDocumentBuf> {
        self.bytes = 0;
        std::mem::take(&mut self.documents)
    }
}
