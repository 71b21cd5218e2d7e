//! The nearest rows, with a workspace that the caller keeps.

use treedb_query::access::{Comparisons, Flow, RowId};
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, Table};
use treedb_vector::nearest::Nearest;

use super::search::{Search, Wanted};
use super::workspace::Workspace;
use crate::read::view::View;

/// What searches of one index need, and what the last has found. Nothing of it is shared with other searches.
#[derive(Debug, Default)]
pub(crate) struct NearestRows {
    workspace: Workspace,
    found: Nearest<RowId>,
}

impl NearestRows {
    /// About the `k` nearest rows with their distances, the nearest first, of `ef` that are looked at. `vector` is one that could be in
    /// the index.
    pub(crate) fn find(
        &mut self,
        def: &VectorDef,
        view: &View<'_, impl Reads>,
        table: &Table,
        vector: &[f32],
        (k, ef): (usize, usize),
    ) -> Result<&[(f32, RowId)]> {
        let NearestRows { workspace, found } = self;
        found.reset(k);
        let (wanted, mut done) = (Wanted { k, ef, discards: false }, Comparisons::default());
        let search = Search { def, view, table, vector };
        search.run_with(workspace, wanted, &mut done, &mut |row, distance| {
            found.add(distance, row);
            Ok(if found.len() < k { Flow::Continue(()) } else { Flow::Break(()) })
        })?;
        Ok(found.sorted())
    }
}
