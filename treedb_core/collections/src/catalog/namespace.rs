//! A collection's full name: `database.collection`.

use std::fmt;

use treedb_query::error::{ErrorCode, QueryError, Result};

/// Longest full name, in bytes: MongoDB's limit.
pub const MAX_NAMESPACE: usize = 255;
/// Longest database name, in bytes.
const MAX_DATABASE: usize = 63;
/// Characters that MongoDB refuses in database names.
const NOT_IN_DATABASE: &[char] = &['/', '\\', '.', ' ', '"', '$', '*', '<', '>', ':', '|', '?', '\0'];

/// A valid full name. The database ends at the first dot; the collection's name may hold more of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    full: String,
    dot: usize,
}

impl Namespace {
    /// The namespace of `collection` in `database`, or `InvalidNamespace` saying what is wrong with the name.
    pub fn new(database: &str, collection: &str) -> Result<Self> {
        check_database(database)?;
        let refuse = |why: &str| {
            Err(QueryError::new(
                ErrorCode::InvalidNamespace,
                format!("Invalid collection name '{collection}' in database '{database}': {why}"),
            ))
        };
        if collection.is_empty() {
            return refuse("it is empty");
        }
        if collection.contains('$') || collection.contains('\0') {
            return refuse("it may not contain '$' or a NUL");
        }
        if collection.starts_with('.') || collection.ends_with('.') {
            return refuse("it may not start or end with '.'");
        }
        if collection.starts_with("system.") {
            return refuse("names starting with 'system.' are reserved");
        }
        if database.len() + 1 + collection.len() > MAX_NAMESPACE {
            return refuse("the full name is over 255 bytes");
        }
        Ok(Namespace { full: [database, ".", collection].concat(), dot: database.len() })
    }

    /// `InvalidNamespace`, saying what is wrong with the name, if no database can be called `database`.
    pub fn check_database(database: &str) -> Result<()> {
        check_database(database)
    }

    /// Reads `database.collection`.
    pub fn parse(full: &str) -> Result<Self> {
        match full.split_once('.') {
            Some((database, collection)) => Self::new(database, collection),
            None => Err(QueryError::new(
                ErrorCode::InvalidNamespace,
                format!("Invalid namespace '{full}': write it as 'database.collection'"),
            )),
        }
    }

    /// False for the database `config`, which the server uses internally: its changes are not in the change log.
    pub(crate) fn is_recorded(&self) -> bool {
        self.database() != "config"
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        self.full.get(..self.dot).unwrap_or_default()
    }

    /// The collection's name without its database.
    pub fn collection(&self) -> &str {
        self.full.get(self.dot + 1..).unwrap_or_default()
    }

    /// `database.collection`.
    pub fn as_str(&self) -> &str {
        &self.full
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

impl std::str::FromStr for Namespace {
    type Err = QueryError;

    fn from_str(full: &str) -> Result<Self> {
        Self::parse(full)
    }
}

/// `InvalidNamespace` if `database` cannot name a database.
pub(crate) fn check_database(database: &str) -> Result<()> {
    // Of each command: letters, digits and what names are joined with are looked at only once.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=MAX_DATABASE).contains(&database.len()) && database.bytes().all(is_plain) {
        return Ok(());
    }
    let why = if database.is_empty() {
        "it is empty".to_owned()
    } else if database.len() > MAX_DATABASE {
        format!("it is over {MAX_DATABASE} bytes")
    } else if let Some(bad) = database.chars().find(|c| NOT_IN_DATABASE.contains(c)) {
        format!("it may not contain {bad:?}")
    } else {
        return Ok(());
    };
    Err(QueryError::new(ErrorCode::InvalidNamespace, format!("Invalid database name '{database}': {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_ends_at_the_first_dot() {
        let ns = Namespace::parse("cinema.films.old").unwrap();
        assert_eq!((ns.database(), ns.collection()), ("cinema", "films.old"));
        assert_eq!(ns.to_string(), "cinema.films.old");
    }

    #[test]
    fn names_mongodb_refuses_are_refused() {
        let long = "x".repeat(MAX_NAMESPACE);
        let bad =
            ["", "films", ".films", "a b.c", "a$.c", "a.c$d", "a.", "a..b", "a.b.", "a.system.x", "a.b\0"];
        for full in bad.iter().copied().chain([long.as_str(), &format!("a.{long}")]) {
            let error = Namespace::parse(full).expect_err(full);
            assert_eq!(error.code, ErrorCode::InvalidNamespace, "{full}");
        }
    }
}
