//! The database that a command works on: a directory that it opens itself, or a running server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use clap::Args;
use treedb_client::{Client, ListIndexes, Tls};
use treedb_collections::Database;
use treedb_collections::{FindRequest, IndexSpec, Namespace};
use treedb_query::error::ErrorCode;

use super::drivers::Drivers;
use super::dump::left_out_to;
use super::key::KeyArgs;
use super::mongo_client::Uri;
use super::user::UserArgs;
use super::{Failure, error_hints};

/// Timeout of requests: a batch of an import may have to wait for a large index build.
const SERVER_TIMEOUT: Duration = Duration::from_secs(600);

/// The database, and the key that opens it.
#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    #[command(flatten)]
    location: Location,
    /// Connect to it through TLS, and trust these certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "native")]
    tls_ca: Option<PathBuf>,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    key: KeyArgs,
}

/// A directory or a server.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Location {
    /// Work in this directory, which no server may have open
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Work through the server whose drivers' port this is
    #[arg(long, value_name = "mongodb://HOST:PORT", conflicts_with = "key_file")]
    uri: Option<Uri>,
    /// Work through the server whose native port this is (`treedb serve --native HOST:PORT`)
    #[arg(long, value_name = "HOST:PORT")]
    native: Option<String>,
}

/// An open database.
pub(super) enum Target {
    Directory(Database),
    Server(Box<Client>),
    Drivers(Box<Drivers>),
}

/// A search as given on the command line.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) filter: RawDocumentBuf,
    pub(super) sort: Option<RawDocumentBuf>,
    pub(super) projection: Option<RawDocumentBuf>,
    pub(super) skip: u64,
    pub(super) limit: u64,
}

/// The specifications of indexes.
#[derive(Debug)]
pub(super) struct IndexSpecs {
    pub(super) specs: Vec<RawDocumentBuf>,
    /// Why there may be others, if the user may not list all.
    pub(super) left_out: Option<String>,
}

/// A document that was not inserted: its index in the request, and the reason.
pub(super) type Refused = (usize, String);

impl TargetArgs {
    /// Whether it is a directory.
    #[cfg(feature = "importers")]
    pub(super) fn is_directory(&self) -> bool {
        self.location.dir.is_some()
    }

    /// Opens it. A directory that does not exist is created if `create` is set.
    pub(super) fn open(&self, create: bool) -> Result<Target, Failure> {
        if let Some(uri) = &self.location.uri {
            return Ok(Target::Drivers(Box::new(Drivers::connect(&self.user.of(uri)?)?)));
        }
        match (&self.location.dir, &self.location.native) {
            (Some(dir), _) => {
                if !create {
                    must_exist(dir)?;
                }
                let database = Database::open_with(dir, self.key.options()?);
                let database = database.map_err(|error| error_hints::directory(dir, &error))?;
                Ok(Target::Directory(database))
            }
            (None, Some(address)) => match self.connect(address) {
                Ok(mut client) => {
                    self.user.authenticate(&mut client)?;
                    Ok(Target::Server(Box::new(client)))
                }
                Err(error) => Err(error_hints::connection(address, &error)),
            },
            // clap requires one of them.
            (None, None) => Err(Failure("--dir DIR or --uri mongodb://HOST:PORT is required".to_owned())),
        }
    }

    fn connect(&self, address: &str) -> treedb_client::Result<Client> {
        let Some(authorities) = &self.tls_ca else { return Client::connect_timeout(address, SERVER_TIMEOUT) };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let tls = Tls::with_roots(host.trim_matches(['[', ']']), authorities)?;
        Client::connect_tls(address, Some(SERVER_TIMEOUT), &tls)
    }
}

impl Target {
    /// Inserts documents. Returns how many were inserted, and which were refused; if `ordered`, the first refusal ends
    /// the insert.
    pub(super) fn insert(
        &mut self,
        namespace: &str,
        documents: &[RawDocumentBuf],
        ordered: bool,
    ) -> Result<(u64, Vec<Refused>), Failure> {
        match self {
            Target::Directory(database) => {
                let outcome = database.collection(namespace)?.insert_many(documents, ordered)?;
                let refused = outcome.errors.into_iter().map(|(at, error)| (at, error.message)).collect();
                Ok((outcome.inserted, refused))
            }
            Target::Server(client) => {
                let outcome = client.insert_many(namespace, documents, ordered)?;
                let refused =
                    outcome.errors.into_iter().map(|failed| (failed.index as usize, failed.error.message));
                Ok((u64::from(outcome.count), refused.collect()))
            }
            Target::Drivers(server) => server.insert(namespace, documents, ordered),
        }
    }

    /// Refuses a collection that does not exist: what reads it has been given another name, or another directory.
    pub(super) fn must_have(&mut self, namespace: &str) -> Result<(), Failure> {
        let exists = match self {
            Target::Directory(database) => {
                let name = Namespace::parse(namespace)?;
                database.list_collections(name.database())?.iter().any(|found| found.namespace == name)
            }
            // A collection has an index at least; a view has none, and is there.
            Target::Server(client) => indexes_there(client, namespace)?.is_none_or(|all| !all.is_empty()),
            Target::Drivers(server) => server.has(namespace)?,
        };
        if exists { Ok(()) } else { Err(Failure(format!("there is no collection {namespace}"))) }
    }

    /// How many documents match.
    pub(super) fn count(&mut self, namespace: &str, filter: &RawDocument) -> Result<u64, Failure> {
        Ok(match self {
            Target::Directory(database) => {
                database.collection(namespace)?.count(FindRequest::filter(filter.to_owned()))?
            }
            Target::Server(client) => client.count(namespace, filter)?,
            Target::Drivers(server) => server.count(namespace, filter)?,
        })
    }

    /// The documents found.
    pub(super) fn find<'p>(
        &'p mut self,
        namespace: &str,
        search: Search,
    ) -> Result<Box<dyn Iterator<Item = Result<RawDocumentBuf, Failure>> + 'p>, Failure> {
        let Search { filter, sort, projection, skip, limit } = search;
        Ok(match self {
            Target::Directory(database) => {
                let request = FindRequest {
                    filter: Some(filter),
                    sort,
                    projection,
                    skip,
                    limit,
                    ..FindRequest::default()
                };
                Box::new(
                    database.collection(namespace)?.find(request)?.map(|found| found.map_err(Failure::from)),
                )
            }
            Target::Server(client) => {
                let (sort, projection) = (sort.as_deref(), projection.as_deref());
                let find = treedb_client::Find {
                    sort,
                    projection,
                    skip,
                    limit,
                    ..treedb_client::Find::new(namespace, &filter)
                };
                Box::new(client.find(&find)?.map(|found| found.map_err(Failure::from)))
            }
            Target::Drivers(server) => {
                Box::new(server.find(namespace, Search { filter, sort, projection, skip, limit })?)
            }
        })
    }

    /// The specifications of all indexes but the one on `_id`, as [`Self::create_index`] takes them.
    pub(super) fn index_specs(&mut self, namespace: &str) -> Result<IndexSpecs, Failure> {
        let mut left_out = None;
        let mut specs: Vec<RawDocumentBuf> = match self {
            Target::Directory(database) => {
                let collection = database.collection(namespace)?;
                let mut specs = Vec::new();
                for index in collection.indexes()?.unwrap_or_default() {
                    specs.push(RawDocumentBuf::try_from(&index)?);
                }
                let search = collection.search_indexes()?.unwrap_or_default();
                specs.extend(search.into_iter().map(|index| index.spec));
                specs
            }
            Target::Server(client) => {
                let found = match client.call(&ListIndexes { namespace, every_kind: true }) {
                    Err(error) if error.code() == Some(ErrorCode::Unauthorized as i32) => {
                        left_out = Some(left_out_to(namespace));
                        indexes_there(client, namespace)?
                    }
                    found => unless_view(found)?,
                };
                let spec = |index: &RawDocumentBuf| match (
                    index.get_str("name"),
                    index.get_document("latestDefinition"),
                ) {
                    (Ok(name), Ok(definition)) => {
                        let definition = definition.to_owned();
                        rawdoc! { "name": name, "type": "vectorSearch", "definition": definition }
                    }
                    _ => index.clone(),
                };
                found.unwrap_or_default().iter().map(spec).collect()
            }
            Target::Drivers(server) => {
                let found = server.index_specs(namespace)?;
                left_out = found.left_out;
                found.specs
            }
        };
        specs.retain(|spec| !spec.get_str("name").is_ok_and(|name| name == "_id_"));
        Ok(IndexSpecs { specs, left_out })
    }

    /// Creates an index of any kind and waits until it is ready.
    pub(super) fn create_index(&mut self, namespace: &str, spec: &RawDocument) -> Result<(), Failure> {
        match self {
            Target::Directory(database) => {
                database.collection(namespace)?.create_index(IndexSpec::from_document(spec))?;
            }
            Target::Server(client) => drop(client.create_index(namespace, spec)?),
            Target::Drivers(server) => server.create_index(namespace, spec)?,
        }
        Ok(())
    }

    /// Makes sure that everything written is on disk.
    pub(super) fn close(self) -> Result<(), Failure> {
        match self {
            Target::Directory(database) => Ok(database.close()?),
            // A server acknowledges writes according to its own durability setting.
            Target::Server(_) | Target::Drivers(_) => Ok(()),
        }
    }
}

/// The indexes of a server's collection; `None` if it is a view.
fn indexes_there(client: &mut Client, namespace: &str) -> Result<Option<Vec<RawDocumentBuf>>, Failure> {
    unless_view(client.list_indexes(namespace))
}

/// The indexes that a server has listed; `None` if it has said that it is a view.
fn unless_view(
    found: treedb_client::Result<Vec<RawDocumentBuf>>,
) -> Result<Option<Vec<RawDocumentBuf>>, Failure> {
    match found {
        Ok(indexes) => Ok(Some(indexes)),
        Err(error) if error.code() == Some(ErrorCode::CommandNotSupportedOnView as i32) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a directory without a database: a command that only reads must not create one for a misspelt name.
pub(super) fn must_exist(dir: &Path) -> Result<(), Failure> {
    if dir.join("pages").is_file() {
        return Ok(());
    }
    Err(Failure(format!(
        "{} contains no database: create one with treedb serve or treedb import",
        dir.display()
    )))
}

/// The filter that matches every document.
pub(super) fn match_all() -> RawDocumentBuf {
    rawdoc! {}
}

/// Reads an argument that names a collection.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    match Namespace::parse(text) {
        Ok(namespace) => Ok(namespace.as_str().to_owned()),
        Err(error) => Err(error.message),
    }
}

/// Reads an argument that is a JSON document.
pub(super) fn json(text: &str) -> Result<RawDocumentBuf, String> {
    treedb_query::doc::json::from_json(text).map_err(|error| error.message)
}
