//! The check of a vector index: its nodes are the vectors of the rows, and the graph leads to all of them.

use std::borrow::Cow;
use std::sync::Arc;

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, SharedReadTxn};
use treedb_vector::centre::Centre;

use super::graph::damage;
use super::record::{
    CENTRE, HEAD, centre_and_reach_in, centre_in, encode_vector, node_of, node_of_vector_row, position_of,
    row_of, vector_row,
};
use crate::catalog::meta::IndexMeta;
use crate::index::{Mismatch, Required};
use crate::read::view::View;

/// What the codes of an index are about, once the first of its rows was checked.
#[derive(Debug, Default)]
pub(crate) struct KnownCentre(Option<Option<Arc<Centre>>>);

/// Looks for the nodes of a row's vectors. An index that is being built may lack nodes, and may have nodes of rows as they were when the
/// build began; the graph over them must be whole.
pub(super) fn row(
    def: &VectorDef,
    view: &View<'_, SharedReadTxn>,
    index: &IndexMeta,
    row: RowId,
    document: &RawDocument,
    required: &mut Required,
) -> Result<(), Mismatch> {
    let centre = match &required.centre.0 {
        Some(centre) => centre.as_ref(),
        None => required.centre.0.insert(centre_in(def, view.reads, &index.table)?).as_ref(),
    };
    let centre = centre.map(Arc::as_ref);
    for (position, vector) in def.vectors(document)?.iter() {
        let node = node_of(def, row.0, position)?;
        let (record, mut same) = (encode_vector(def, centre, vector), false);
        let there =
            view.reads.visit_row(&index.table, vector_row(node), &mut |found| same = *found == *record)?;
        match (there, same) {
            (true, same) if same || index.building.is_some() => drop(required.nodes.insert(node)),
            (true, _) => {
                let what = format!("has another vector for row {row:?} at position {position} than the row");
                return Err(Mismatch::Found(what));
            }
            (false, _) if index.building.is_some() => {}
            (false, _) => {
                let what = format!("has no node for row {row:?}, which has a vector at position {position}");
                return Err(Mismatch::Found(what));
            }
        }
    }
    Ok(())
}

/// Checks that every node belongs to a row, and the graph; the number of nodes.
pub(super) fn graph(
    def: &VectorDef,
    view: &View<'_, SharedReadTxn>,
    index: &IndexMeta,
    required: &Required,
) -> Result<u64, Mismatch> {
    let mut nodes = Cow::Borrowed(&required.nodes);
    let (centre, reach) = centre_and_reach_in(def, view.reads, &index.table)?.unzip();
    if reach.flatten().is_some() && !index.flags.reaching {
        return Err(Mismatch::Found("has a reach, of which its catalog entry says nothing".to_owned()));
    }
    if centre.is_some() && !index.flags.centred {
        return Err(Mismatch::Found("has a centre, of which its catalog entry says nothing".to_owned()));
    }
    let mut rows = view.reads.rows(&index.table, 0)?;
    while let Some((row, _)) = rows.lend_next()? {
        // Links and vector of a node have the same number, but for the last bit.
        let node = node_of_vector_row(row).unwrap_or(row / 2);
        if row == HEAD || row == CENTRE && centre.is_some() || nodes.contains(&node) {
            continue;
        }
        if index.building.is_none() {
            let (row, position) = (row_of(node), position_of(node));
            let what = format!("has a node for row {row}, which has no vector at position {position}");
            return Err(Mismatch::Found(what));
        }
        nodes.to_mut().insert(node);
    }
    match damage(def, view.reads, &index.table, &nodes)? {
        Some(damage) => Err(Mismatch::Found(damage)),
        None => Ok(nodes.len() as u64),
    }
}
