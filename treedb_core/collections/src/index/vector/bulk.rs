//! The first part of a build: the graph in memory, by several threads, and then in a table.
//!
//! Rows are read from a snapshot until there are no more or the graph takes as much memory as it may. Then the graph is stored in a table
//! that nothing else knows, some hundred nodes in each transaction. Meanwhile others write, and change the table that the index
//! has. In the end the new table takes its place. It is as old as the snapshot, so the steps of [`super::build`] go through all rows
//! after that. After a crash in between the build begins again.

use std::sync::Arc;

use treedb_query::access::{Direction, Flow, RowId, Source};
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, Table, TableKind, WriteTxn};
use treedb_vector::centre::Centre;
use treedb_vector::code::Coded;
use treedb_vector::graph::{Link, Nodes, NodesMut};
use treedb_vector::memory::{Builder, MemoryGraph, Undisturbed};

use super::build::{SAMPLED, STEP_ROWS, add_nodes};
use super::graph::empty_graph;
use super::image::Reserved;
use super::record::{
    CENTRE, HEAD, Head, damaged, encode_centre, encode_coded, encode_links, encode_vector, links_row,
    may_have_centre, vector_row,
};
use crate::catalog::meta::{IndexFlags, Meta, index_table, new_index_table};
use crate::index::{BuildSlice, Progress};
use crate::read::view::View;

/// Rows that are read at a time, and nodes that one transaction stores.
const STEP: usize = 4 * STEP_ROWS;

/// Places among the rows of a collection where those are that tell the centre.
const PLACES: u64 = 16;
/// Slices of rows that are read at each place at most to find some with vectors.
const SLICES: usize = 64;

/// A node and its vector.
type NodeVector = (u64, Vec<f32>);

/// A graph in memory.
struct Collected<'i> {
    graph: MemoryGraph,
    /// The numbers that its nodes have in the table.
    numbers: Vec<u64>,
    /// What both take.
    _memory: Reserved<'i>,
}

/// Builds an index as far as memory goes, if it is worth it; otherwise nothing is done.
pub(super) fn build(
    def: &VectorDef,
    slice: &BuildSlice<'_>,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Option<Progress>> {
    let Some(collected) = collect(def, slice, on_progress)? else { return Ok(None) };
    let Some(table) = slice
        .edit(|edit, index| {
            let Some(name) =
                edit.meta.indexes.get(index).map(|target| new_index_table(edit.meta.id, target.id))
            else {
                return Ok(None);
            };
            // That of a build that a crash has ended.
            edit.txn.drop_table(&name)?;
            edit.txn.create_table(&name, TableKind::Rows).map(Some).map_err(Into::into)
        })?
        .flatten()
    else {
        return Ok(Some(Progress::Dropped));
    };
    for from in (0..collected.numbers.len()).step_by(STEP) {
        let stored = slice.edit(|edit, _| collected.store(def, edit.txn, &table, from))?;
        if stored.is_none() {
            return Ok(Some(Progress::Dropped));
        }
        on_progress(0);
    }
    let replaced = slice.edit(|edit, index| {
        let Some(id) = edit.meta.indexes.get(index).map(|target| target.id) else { return Ok(()) };
        if let Some(head) = collected.head().encode() {
            edit.txn.put_row(&table, HEAD, &head)?;
        }
        let centre = collected.graph.centre();
        if let Some(centre) = centre {
            edit.txn.put_row(&table, CENTRE, &encode_centre(centre))?;
        }
        let name = index_table(edit.meta.id, id);
        edit.txn.drop_table(&name)?;
        edit.txn.rename_table(&new_index_table(edit.meta.id, id), &name)?;
        let table = edit.txn.table(&name)?.ok_or_else(|| damaged(def, "the table"))?;
        if let Some(target) = Arc::make_mut(&mut edit.meta).indexes.get_mut(index) {
            target.table = table;
        }
        let flags = IndexFlags { centred: centre.is_some(), ..IndexFlags::default() };
        // No row has number 0.
        edit.finish_slice(index, flags, Some(1))
    })?;
    Ok(Some(if replaced.is_some() { Progress::More } else { Progress::Dropped }))
}

/// Rows that were read.
struct Slice {
    vectors: Vec<NodeVector>,
    /// How many of the rows have vectors.
    rows: u64,
    /// Where the next ones begin.
    next: Option<u64>,
}

/// The vectors of the next rows from `from` on, at most `most`, or fewer that have as many vectors.
fn read(def: &VectorDef, reads: &impl Reads, meta: &Meta, from: u64, most: usize) -> Result<Slice> {
    let (fields, mut read) = (def.fields(), 0);
    let mut slice = Slice { vectors: Vec::new(), rows: 0, next: None };
    let view = View { reads, meta };
    view.scan_rows(Direction::Forward, from.checked_sub(1).map(RowId), &mut |id, row| {
        if read == most || slice.vectors.len() >= most {
            slice.next = Some(id.0);
            return Ok(Flow::Break(()));
        }
        read += 1;
        let before = slice.vectors.len();
        add_nodes(def, id, &def.vectors(row.partial_document(&fields)?)?, &mut slice.vectors)?;
        slice.rows += u64::from(slice.vectors.len() > before);
        Ok(Flow::Continue(()))
    })?;
    Ok(slice)
}

/// The centre that the codes of an index are to be about, if it is not zero: vectors are much alike.
fn centre_for(def: &VectorDef, reads: &impl Reads, meta: &Meta) -> Result<Option<Centre>> {
    if !may_have_centre(def) {
        return Ok(None);
    }
    let (mut sample, end) = (Vec::new(), reads.next_row(&meta.rows)?);
    let wanted = SAMPLED / PLACES as usize;
    for place in 0..PLACES {
        // Rows of collections with such an index have at most 40 bits.
        let (mut next, mut found, mut slices) = (Some(end.saturating_mul(place) / PLACES), 0, 0);
        // Not all documents have vectors.
        while let Some(from) = next.filter(|_| found < wanted && slices < SLICES) {
            let slice = read(def, reads, meta, from, wanted)?;
            found += slice.vectors.len();
            slices += 1;
            sample.extend(slice.vectors);
            next = slice.next;
        }
    }
    let sample: Vec<&[f32]> = sample.iter().map(|(_, vector)| vector.as_slice()).collect();
    Ok(Centre::of_alike(def.metric, def.elements, &sample))
}

/// Builds the graph of the rows of the snapshot that there is memory for; `None` if a step does as well.
fn collect<'b>(
    def: &VectorDef,
    slice: &BuildSlice<'b>,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Option<Collected<'b>>> {
    let images = slice.db.inner.catalog.images();
    let mut memory = images.reserve();
    let (mut numbers, mut next) = (Vec::new(), Some(0));
    let reads = slice.reads.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut graph = empty_graph(def).without_vectors();
    if let Some(centre) = centre_for(def, &*reads, &slice.meta)? {
        graph.set_centre(Arc::new(centre));
    }
    let mut builder = Builder::new(graph, images.build_threads(), Undisturbed);
    while let Some(from) = next {
        let Slice { vectors, rows, next: after } = read(def, &*reads, &slice.meta, from, STEP)?;
        if from == 0 && after.is_none() && vectors.len() <= STEP_ROWS {
            return Ok(None);
        }
        let nodes = numbers.len() + vectors.len();
        let bytes =
            |builder: &Builder| builder.bytes_of(nodes) + size_of::<u64>() * nodes.next_power_of_two();
        let has_room = memory.grow_to(bytes(&builder) as u64)
            // A build without scores is slower, and much faster than adding rows to the table.
            || builder.shed() && memory.grow_to(bytes(&builder) as u64);
        if builder.graph().is_full() || !has_room {
            if from == 0 {
                return Ok(None);
            }
            break;
        }
        for (number, vector) in &vectors {
            builder.add(vector).map_err(|_| damaged(def, "a vector"))?;
            numbers.push(*number);
        }
        on_progress(rows);
        next = after;
    }
    Ok(Some(Collected { graph: builder.finish(), numbers, _memory: memory }))
}

impl Collected<'_> {
    /// The number of a node.
    fn number(&self, node: u32) -> u64 {
        self.numbers.get(node as usize).copied().unwrap_or(0)
    }

    fn head(&self) -> Head {
        let (Ok(entry), Ok(root)) = (self.graph.entry(), self.graph.root());
        Head {
            entry: entry.map(|(node, level)| (self.number(node), level)),
            root: root.map(|node| self.number(node)),
        }
    }

    /// Stores the nodes from number `from` on, as many as one transaction takes.
    fn store(&self, def: &VectorDef, txn: &mut WriteTxn, table: &Table, from: usize) -> Result<()> {
        let (mut links, mut vector) = (Vec::new(), Vec::new());
        for (at, number) in self.numbers.iter().enumerate().skip(from).take(STEP) {
            let node = at as u32;
            let Ok(top) = self.graph.level(node);
            let mut levels = Vec::new();
            for level in 0..=top {
                let Ok(()) = self.graph.scored_links(node, level, &mut links);
                let linked =
                    links.iter().map(|link| Link { score: link.score, node: self.number(link.node) });
                levels.push(linked.collect());
            }
            let coded = self.graph.coded(node);
            let record = match def.has_codes() {
                _ if def.metric.is_of_bits() => encode_coded(Coded::of_bits(coded.codes)),
                true => encode_coded(coded),
                false => encode_vector(def, None, self.graph.read_vector(node, &mut vector)),
            };
            txn.put_row(table, links_row(*number), &encode_links(&levels))?;
            txn.put_row(table, vector_row(*number), &record)?;
        }
        Ok(())
    }
}
