//! Checks a collection: rows against indexes, and indexes against rows.

use treedb_query::access::{Direction, Flow, Source};
use treedb_query::doc;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::interrupt::InterruptTick;
use treedb_storage::ReadTxn;

use crate::catalog::meta::Meta;
use crate::index::{IndexKind, Mismatch, by_kind};
use crate::read::view::View;

/// What [`Database::check`](crate::Database::check) has checked in one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionCheck {
    /// Its name.
    pub namespace: String,
    /// The number of rows, each decoded and validated.
    pub rows: u64,
    /// The name of each index, and the number of its entries, each compared with its row.
    pub indexes: Vec<(String, u64)>,
}

/// Checks one collection in a snapshot. An index that is being built must not have wrong entries, but may lack some.
pub(crate) fn collection(reads: &ReadTxn, meta: &Meta) -> Result<CollectionCheck> {
    let view = View { reads, meta };
    let inconsistent = |name: &str, mismatch| match mismatch {
        Mismatch::Found(what) => QueryError::new(
            ErrorCode::InternalError,
            format!("{}: index {name} {what}; restore from a backup", meta.namespace),
        ),
        Mismatch::Failed(error) => error,
    };
    let mut checkers = Vec::with_capacity(meta.indexes.len());
    for index in &meta.indexes {
        checkers.push((index.def.name(), by_kind!(&index.def, kind => kind.checker(&view, index))));
    }
    let (mut rows, mut interrupt) = (0, InterruptTick::default());
    view.scan(Direction::Forward, None, &mut |row, document| {
        interrupt.tick()?;
        rows += 1;
        doc::validate(document.as_bytes())?;
        for (name, checker) in &mut checkers {
            checker.row(row, document).map_err(|mismatch| inconsistent(name, mismatch))?;
        }
        Ok(Flow::Continue(()))
    })?;
    let mut indexes = Vec::new();
    for (name, checker) in checkers {
        let entries = checker.finish().map_err(|mismatch| inconsistent(name, mismatch))?;
        indexes.push((name.to_owned(), entries));
    }
    Ok(CollectionCheck { namespace: meta.namespace.to_string(), rows, indexes })
}
