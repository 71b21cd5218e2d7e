//! Searches of one vector index that keep what they need from one to the next.

use std::fmt;

use bson::RawBsonRef;

use treedb_query::access::Source;
use treedb_query::doc::Fields;
use treedb_query::error::{QueryError, Result};
use treedb_query::index::vector::VectorDef;

use crate::collection::Collection;
use crate::database::Database;
use crate::index::NearestRows;
use crate::read::view::View;

/// Searches of a vector index, one after another: the nearest documents to a vector, of which it gives the `_id`.
///
/// Each search sees what is committed when it begins. If the index is in memory with its vectors (any `quantization` but `binary`,
/// `bits2` and `bits4`), a search allocates nothing and waits for no lock but after writes, which one of the searches that come next brings
/// the index in memory up to date with. Each thread has its own searcher.
pub struct VectorSearcher {
    collection: Collection,
    index: String,
    path: Option<String>,
    id: Fields,
    rows: NearestRows,
}

impl fmt::Debug for VectorSearcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VectorSearcher").field("index", &self.index).finish_non_exhaustive()
    }
}

impl VectorSearcher {
    pub(crate) fn new(collection: Collection, index: &str) -> VectorSearcher {
        let id = Fields::new(std::iter::once(&b"_id"[..]));
        VectorSearcher { collection, index: index.to_owned(), path: None, id, rows: NearestRows::default() }
    }

    /// Searches by the vectors of this field, which has to be said of an index of several.
    pub fn path(self, path: impl Into<String>) -> VectorSearcher {
        VectorSearcher { path: Some(path.into()), ..self }
    }

    /// Calls `visit` with the `_id` and the distance of the `limit` documents nearest to `vector`, the nearest first. The index looks at
    /// `candidates` vectors, at least `limit`: the more, the better the answer, and the longer it takes.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `IndexNotFound`; `BadValue` for a vector that the index cannot compare, for a field that it does not have, and for a
    /// limit of 0.
    pub fn search(
        &mut self,
        vector: &[f32],
        limit: usize,
        candidates: usize,
        mut visit: impl FnMut(RawBsonRef<'_>, f32),
    ) -> Result<()> {
        let Some((reads, meta)) = self.collection.snapshot()? else {
            return Err(Database::namespace_not_found(self.collection.namespace()));
        };
        let view = View { reads: &reads, meta: &meta };
        // Those that are ready come first.
        let ready = meta.infos.iter().zip(&meta.indexes);
        let vectors = ready.filter_map(|(info, index)| Some((&index.table, info.def.as_vector()?)));
        let (table, def) = VectorDef::chosen(vectors, &self.index, self.path.as_deref())?;
        def.check_query(vector)?;
        if limit == 0 {
            return Err(QueryError::bad_value("\"limit\" must be positive"));
        }
        for (distance, row) in self.rows.find(def, &view, table, vector, (limit, candidates.max(limit)))? {
            view.fetch_row(*row, &mut |row| {
                let id = row.partial_document(&self.id)?.get("_id")?;
                visit(id.unwrap_or(RawBsonRef::Null), *distance);
                Ok(())
            })?;
        }
        Ok(())
    }
}
