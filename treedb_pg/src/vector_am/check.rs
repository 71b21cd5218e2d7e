//! `treedb.check` of an index of this access method: links go both ways and have the codes of
//! what they lead to, nodes those of their vectors, every linked node is reached, nodes and vectors agree, and every row that a snapshot sees has a node.

use std::collections::{BTreeMap, BTreeSet};

use pgrx::check_for_interrupts;
use treedb_vector::graph;

use super::graph::Graph;
use super::meta::Choice;
use super::record::{self, Place, Slots, node};
use super::value;
use super::writer::Writer;
use crate::pages::check::Problems;
use crate::shim::fault;
use crate::shim::heap::tid_parts;
use crate::shim::index_build::scan_table;
use crate::shim::relation::{Index, OpenTable};
use crate::shim::snapshot::{self, Registered};

/// Whether the links of a node in level 0 have the codes of the vectors that they lead to.
fn codes_agree(writer: &Writer<'_>, node: u32) -> bool {
    let (layout, rotation) = (&writer.graph.layout, writer.graph.rotation());
    let Some(kept) = layout.code else { return true };
    check_for_interrupts!();
    let slot = writer.graph.node(node, <[u8]>::to_vec);
    let (mut own, mut other, mut difference, mut wanted) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let centre = writer.graph.centre.as_deref();
    layout.vector(&slot, &mut own);
    kept.prepare(&rotation, centre, &mut own);
    layout.links(Slots::Nodes, &slot, node::COUNT).all(|(link, code)| {
        writer.graph.node(link.node, |slot| layout.vector(slot, &mut other));
        kept.prepare(&rotation, centre, &mut other);
        wanted.clear();
        kept.append(&rotation, &other, &own, &mut difference, &mut wanted);
        kept.is_same(code, &wanted)
    })
}

/// Whether a node has the codes of its vector, which is at a place.
fn own_codes_agree(writer: &Writer<'_>, node: u32, place: Place) -> bool {
    let (graph, mut vector) = (&writer.graph, Vec::new());
    let layout = &graph.layout;
    graph.read(Slots::Vectors, place, |slot| layout.read_vector(slot, &mut vector));
    let Ok(unit) = layout.metric.check(&vector, layout.dimensions) else { return false };
    let mut codes = vec![0; vector.len()];
    let factors = graph.encode(&vector, unit, &mut codes);
    graph.node(node, |slot| {
        let found = layout.coded(slot);
        found.codes == codes && found.factors == factors
    })
}

/// Reports what is wrong with an index and, if `heapallindexed` asks for that, compares it with its table.
pub(crate) fn check(table: &OpenTable, index: Index<'_>, heapallindexed: bool, problems: &mut Problems) {
    // Rows that this sees have their nodes for as long as it lives.
    let snapshot = Registered::latest();
    // Nobody changes the index meanwhile. On a standby it may be seen between two changes of one node.
    let writer = if snapshot::in_recovery() { Writer::unlocked(index) } else { Writer::lock(index) };
    let (root, layout) = (writer.graph.meta.root, writer.graph.layout);
    let (mut linked, mut vectors) = (BTreeSet::new(), BTreeMap::new());
    writer.each_node(|node, slot| {
        // One without links waits for a vacuum: its row was not committed.
        if root == Some(node) || layout.links(Slots::Nodes, slot, node::COUNT).next().is_some() {
            linked.insert(node);
            vectors.insert(node, (record::row(slot).map(record::row_bytes), record::vector_place(slot)));
        }
    });
    let Ok(damage) = graph::check(&writer, &linked, &writer.graph.meta.limits());
    for damage in damage {
        problems.report(|| format!("the graph is not whole: {damage:?}"));
    }
    // Codes are to be made anew by the next writer: until then some are about what they were about before.
    let has_codes = !matches!(writer.graph.meta.choice, Choice::Recoding { .. });
    let mut of_codes = problems.none_yet();
    fault::pause("hnsw_check");
    for node in linked.iter().filter(|_| has_codes) {
        if !codes_agree(&writer, *node) {
            let at = layout.place(*node);
            of_codes.report(|| {
                format!("codes of links of slot {} of block {} are not their vectors'", at.slot, at.block)
            });
        }
    }
    let mut rows: BTreeMap<[u8; 6], usize> = BTreeMap::new();
    for (node, (row, place)) in vectors {
        let row = row.unwrap_or_default();
        *rows.entry(row).or_default() += 1;
        let Some(place) = place else { continue };
        let agrees = writer.graph.read(Slots::Vectors, place, |slot| slot.starts_with(&row));
        if !agrees {
            let at = layout.place(node);
            problems
                .report(|| format!("the vector of slot {} of block {} is another row's", at.slot, at.block));
        } else if has_codes && !own_codes_agree(&writer, node, place) {
            let at = layout.place(node);
            of_codes.report(|| {
                format!("the codes of slot {} of block {} are not its vector's", at.slot, at.block)
            });
        }
    }
    // On a standby a centre may have come meanwhile, before any code about it.
    if Graph::meta_now(index).centre == writer.graph.meta.centre {
        problems.append(of_codes);
    }
    if !heapallindexed || !index.is_valid() {
        return;
    }
    let meta = writer.graph.meta;
    // Reading the table takes long, and needs the lock no more: nodes of rows that the snapshot sees stay.
    drop(writer);
    let mut vector = Vec::new();
    scan_table(table.get(), index, snapshot.get(), |row| {
        let Some(value) = row.value(0) else { return };
        let mut wanted = 0;
        value::each_indexable(meta.kind, meta.dimensions, value.bytes(), &mut vector, |_, _| wanted += 1);
        let found = rows.get(&record::row_bytes(row.tid())).copied().unwrap_or(0);
        if found < wanted {
            let (block, offset) = tid_parts(row.tid());
            problems.report(|| match found {
                0 => format!("row ({block},{offset}) has no node"),
                _ => format!("row ({block},{offset}) has {found} nodes for {wanted} vectors"),
            });
        }
    });
}
