//! Adding the rows of a collection to an index that is being built, slice by slice. What a slice is, the kind of the index decides.

use std::sync::{Arc, Mutex};

use treedb_query::error::Result;

use crate::catalog::meta::BUILT;
use crate::catalog::namespace::Namespace;
use crate::database::Database;
use crate::index::{BuildSlice, IndexKind, Progress, building, by_kind};

/// Builds the next slice of the index `id` and calls `on_progress` with the number of rows done in each step.
///
/// # Errors
/// Those of its entries; `NamespaceNotFound`.
pub(crate) fn advance(
    db: &Database,
    namespace: &Namespace,
    id: i64,
    mut on_progress: impl FnMut(u64),
) -> Result<Progress> {
    let reads = db.inner.store.begin_read()?;
    let meta = db.inner.catalog.find(&reads, namespace)?;
    let meta = meta.ok_or_else(|| Database::namespace_not_found(namespace))?;
    let (index, from) = match building(&meta, id) {
        None => return Ok(Progress::Dropped),
        // It waits for other fields of its search index, or is ready.
        Some((_, None | Some(BUILT))) => return Ok(Progress::Ready),
        Some((index, Some(from))) => (index, from),
    };
    let Some(def) = meta.indexes.get(index).map(|index| index.def.clone()) else {
        return Ok(Progress::Dropped);
    };
    let slice = BuildSlice { db, namespace, id, reads: Arc::new(Mutex::new(reads)), meta, from };
    by_kind!(&def, kind => kind.build(&slice, &mut on_progress))
}
