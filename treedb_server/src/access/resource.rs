//! What a privilege is about, and what a command touches.

use bson::{Document, RawDocument};

/// What a command touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// The server.
    Cluster,
    /// A database as a whole.
    Database(&'a str),
    /// A collection: database and name.
    Collection(&'a str, &'a str),
}

/// A [`Target`] that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum OwnedTarget {
    Cluster,
    Database(String),
    Collection(String, String),
}

impl Target<'_> {
    /// The same, to keep.
    pub(crate) fn owned(self) -> OwnedTarget {
        match self {
            Target::Cluster => OwnedTarget::Cluster,
            Target::Database(database) => OwnedTarget::Database(database.to_owned()),
            Target::Collection(database, collection) => {
                OwnedTarget::Collection(database.to_owned(), collection.to_owned())
            }
        }
    }
}

impl OwnedTarget {
    /// The target.
    pub(crate) fn target(&self) -> Target<'_> {
        match self {
            OwnedTarget::Cluster => Target::Cluster,
            OwnedTarget::Database(database) => Target::Database(database),
            OwnedTarget::Collection(database, collection) => Target::Collection(database, collection),
        }
    }
}

/// What a privilege is about. An empty name stands for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Everything there is, system collections included.
    Any,
    /// The server.
    Cluster,
    /// Collections: those of a database without a name of a collection, those of this name in every database without the
    /// name of a database. Without a collection's name, system collections are not among them; without a database's name,
    /// those of `local` and `config` are not either.
    Collections {
        /// The database, or nothing.
        database: String,
        /// The collection, or nothing.
        collection: String,
    },
}

/// Whether a collection is the server's: its name is reserved, or it has the replies to retryable writes of all users.
fn is_system(database: &str, collection: &str) -> bool {
    collection.starts_with("system.") || (database, collection) == ("config", "transactions")
}

impl Resource {
    /// The collections of a database.
    pub(crate) fn database(name: &str) -> Resource {
        Resource::Collections { database: name.to_owned(), collection: String::new() }
    }

    /// A collection.
    pub(crate) fn collection(database: &str, collection: &str) -> Resource {
        Resource::Collections { database: database.to_owned(), collection: collection.to_owned() }
    }

    /// Whether a privilege on it is one on the target.
    pub(crate) fn covers(&self, target: Target<'_>) -> bool {
        let (own_database, own_collection) = match (self, target) {
            (Resource::Any, _) | (Resource::Cluster, Target::Cluster) => return true,
            (Resource::Cluster, _) | (_, Target::Cluster) => return false,
            (Resource::Collections { database, collection }, _) => (database.as_str(), collection.as_str()),
        };
        let (database, collection) = match target {
            Target::Database(database) => (database, None),
            Target::Collection(database, collection) => (database, Some(collection)),
            Target::Cluster => return false,
        };
        let of_database = match own_database {
            "" => !matches!(database, "local" | "config"),
            own => own == database,
        };
        let of_collection = match (own_collection, collection) {
            ("", Some(name)) => !is_system(database, name),
            ("", None) => true,
            (own, name) => name == Some(own),
        };
        of_database && of_collection
    }

    /// Reads MongoDB's form: `{db, collection}`, `{cluster: true}`, `{anyResource: true}`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(document: &RawDocument) -> Result<Resource, String> {
        let (mut database, mut collection, mut whole) = (None, None, None);
        for field in document {
            let (name, value) = field.map_err(|error| error.to_string())?;
            let text =
                || value.as_str().map(str::to_owned).ok_or(format!("resource.{name} must be a string"));
            match name.as_str() {
                "db" => database = Some(text()?),
                "collection" => collection = Some(text()?),
                "cluster" if value.as_bool() == Some(true) => whole = Some(Resource::Cluster),
                "anyResource" if value.as_bool() == Some(true) => whole = Some(Resource::Any),
                other => return Err(format!("a resource has no field {other:?} of that value")),
            }
        }
        match (database, collection, whole) {
            (Some(database), Some(collection), None) => Ok(Resource::Collections { database, collection }),
            (None, None, Some(whole)) => Ok(whole),
            _ => Err("a resource is {db, collection}, {cluster: true} or {anyResource: true}".to_owned()),
        }
    }

    /// The same form.
    pub(crate) fn document(&self) -> Document {
        match self {
            Resource::Any => bson::doc! { "anyResource": true },
            Resource::Cluster => bson::doc! { "cluster": true },
            Resource::Collections { database, collection } => {
                bson::doc! { "db": database, "collection": collection }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_resource_covers_what_mongodb_says_it_does() {
        let any = Resource::collection("", "");
        let shop = Resource::database("shop");
        let orders = Resource::collection("shop", "orders");
        let everywhere = Resource::collection("", "orders");
        for (resource, target, covered) in [
            (&shop, Target::Database("shop"), true),
            (&shop, Target::Collection("shop", "orders"), true),
            (&shop, Target::Collection("shop", "system.profile"), false),
            (&shop, Target::Collection("other", "orders"), false),
            (&shop, Target::Cluster, false),
            (&orders, Target::Collection("shop", "orders"), true),
            (&orders, Target::Database("shop"), false),
            (&everywhere, Target::Collection("a", "orders"), true),
            (&everywhere, Target::Collection("a", "b"), false),
            (&any, Target::Collection("a", "b"), true),
            (&any, Target::Collection("admin", "system.users"), false),
            (&any, Target::Collection("config", "transactions"), false),
            (&any, Target::Database("a"), true),
            (&any, Target::Cluster, false),
            (&Resource::Cluster, Target::Cluster, true),
            (&Resource::Cluster, Target::Database("a"), false),
            (&Resource::Any, Target::Cluster, true),
            (&Resource::Any, Target::Collection("admin", "system.users"), true),
        ] {
            assert_eq!(resource.covers(target), covered, "{resource:?} {target:?}");
        }
    }

    #[test]
    fn a_resource_is_read_as_it_is_written() {
        for resource in
            [Resource::Any, Resource::Cluster, Resource::database("a"), Resource::collection("a", "b.c")]
        {
            let raw = bson::RawDocumentBuf::try_from(&resource.document()).unwrap();
            assert_eq!(Resource::read(&raw), Ok(resource));
        }
        for wrong in [
            rawdoc! {},
            rawdoc! { "db": "a" },
            rawdoc! { "db": 1, "collection": "" },
            rawdoc! { "cluster": false },
            rawdoc! { "cluster": true, "db": "a", "collection": "" },
        ] {
            assert!(Resource::read(&wrong).is_err(), "{wrong:?}");
        }
    }
}
