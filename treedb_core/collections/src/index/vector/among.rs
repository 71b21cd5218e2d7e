//! The nearest among the rows that a filter lets through, by the image of the index.
//!
//! The graph in the image finds the nearest of their nodes ([`treedb_vector::memory`]), and what is to be trusted is compared exactly: by
//! the vectors of the image, or, where it has codes of few bits, by documents. Of rows with several vectors all nodes are among those that
//! are looked for, and more of them are found until they are of enough rows; a row is as far as its nearest vector.

use treedb_query::access::{Among, Compared, Comparisons, RowId};
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_query::query::interrupt;
use treedb_storage::{Reads, Table};
use treedb_vector::memory::{Searcher, Way};

use super::graph::NodeSet;
use super::image::Image;
use super::record::row_of;
use super::search::{Documents, GROWTH, Imaged, RANKED, bits_of};
use super::workspace::{Workspace, with_workspace};
use crate::read::view::View;

/// Vectors that are fetched from memory at a time.
const PREFETCHED: usize = 16;

/// See [`Source::nearest_among`](treedb_query::access::Source::nearest_among). Only an image tells: a record of the table may have codes
/// only.
pub(super) fn nearest_among(
    def: &VectorDef,
    view: &View<'_, impl Reads>,
    table: &Table,
    vector: &[f32],
    among: &Among<'_>,
    visit: &mut dyn FnMut(RowId, f32) -> Result<()>,
) -> Result<Option<Compared>> {
    with_workspace(|workspace| {
        let Some(image) = view.meta.images.image(def, view, table, workspace)? else { return Ok(None) };
        let few = def.quantization.few_bits().is_some();
        if few && among.ef.is_none() {
            // All documents have to be read, which the query does as well.
            return Ok(None);
        }
        let Workspace { searcher, batch, nodes, vector: place, record, .. } = workspace;
        nodes.clear();
        image.add_nodes(among.rows, nodes)?;
        let all = nodes.len();
        let (way, compared) = find_among(&image, vector, among, nodes, searcher, &mut batch.rows)?;
        // The query finds them by itself then. Nothing was visited yet.
        if !image.check_nodes(nodes) {
            return Ok(None);
        }
        let mut done = Comparisons { vectors: compared as u64, documents: 0 };
        batch.rows.clear();
        let mut documents = Documents::new(def, view, vector);
        if few {
            for node in nodes.iter() {
                let row = row_of(image.number(*node));
                if !image.several() || batch.rows.insert(row) {
                    visit(RowId(row), documents.distance(row)?)?;
                }
            }
            done.documents = documents.read;
            return Ok(Some(Compared { done, way, passes_over: nodes.len() < all }));
        }
        let bits = bits_of(def, vector, record);
        let mut graph = Imaged { documents, image: &image, bits, searcher, place };
        for nodes in nodes.chunks(PREFETCHED) {
            nodes.iter().for_each(|node| image.graph.prefetch_vector(*node));
            for node in nodes {
                let row = row_of(image.number(*node));
                if !image.several() {
                    visit(RowId(row), graph.node_distance(*node))?;
                } else if batch.rows.insert(row) {
                    visit(RowId(row), graph.nearest_of_row(row))?;
                }
            }
        }
        Ok(Some(Compared { done, way, passes_over: false }))
    })
}

/// Leaves those of `nodes` that are to be compared exactly, of at least twice as many rows as are wanted, if there are so many; returns how
/// they were found, and how many were compared for that. `rows` is overwritten.
fn find_among(
    image: &Image,
    vector: &[f32],
    among: &Among<'_>,
    nodes: &mut Vec<u32>,
    searcher: &mut Searcher,
    rows: &mut NodeSet,
) -> Result<(Way, usize)> {
    let wanted = among.k.saturating_mul(2).max(RANKED);
    let mut ef = among.ef.map_or(usize::MAX, |ef| ef.max(wanted));
    let mut compared = 0;
    while ef < nodes.len() {
        let Some(way) = search_among(image, vector, nodes, ef, searcher)? else { break };
        compared += searcher.compared();
        let found = searcher.found_among().iter().map(|(_, node)| *node);
        rows.clear();
        if image.several() {
            rows.extend(found.clone().map(|node| row_of(image.number(node))));
        }
        // Many of them may be of the same few rows.
        if !image.several() || rows.len() >= wanted {
            nodes.clear();
            nodes.extend(found);
            return Ok((way, compared));
        }
        ef = ef.saturating_mul(GROWTH);
    }
    Ok((Way::OneByOne, compared + nodes.len()))
}

/// [`MemoryGraph::search_among`](treedb_vector::memory::MemoryGraph::search_among), unless the operation is told to end; `None` if no node
/// can be compared with the vector.
pub(super) fn search_among(
    image: &Image,
    vector: &[f32],
    nodes: &[u32],
    ef: usize,
    searcher: &mut Searcher,
) -> Result<Option<Way>> {
    let mut checked = Ok(());
    let found = image.graph.search_among_while(vector, nodes, ef, searcher, &mut || {
        checked = interrupt::check();
        checked.is_ok()
    });
    checked?;
    Ok(found.ok().flatten())
}
