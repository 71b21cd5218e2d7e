//! The centre that the codes of an index are about ([`treedb_vector::centre`]): when it is chosen, and by which vectors.
//!
//! An index that has no centre is judged by a sample of its vectors
//!
//! - when it is built, by some of all documents;
//! - when its first vectors come, by those that come together;
//! - when it has grown to so many vectors as [`Centre::STEPS`] say, by some of them.
//!
//! Vectors that are alike get a centre, which stays as long as there is any vector; but at these steps an index whose links are chosen with a reach
//! gets another one, and another centre with it, if its vectors have outgrown it, as where they get longer over time. An index that has grown is coded again then, and linked
//! again, since links that were chosen by codes that do not tell vectors apart lead nowhere: in the transaction that adds the vector that
//! makes them so many. So it is at any time as if it had been built, and is read as any other. Vectors that are not alike stay as they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use treedb_query::access::{RowId, Source};
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, Table, TableKind, WriteTxn};
use treedb_vector::centre::{Centre, Reach};
use treedb_vector::memory::{Builder, Undisturbed};

use super::built::Built;
use super::bulk;
use super::graph::graph_about;
use super::image::lock;
use super::judgement::judge;
use super::record::{
    centre_and_reach_in, centre_in, damaged, may_have_centre, node_of, node_of_vector_row, nodes_in,
    position_of, row_of,
};
use crate::catalog::meta::{BUILT, IndexFlags, IndexMeta, Meta, index_table};
use crate::read::view::View;

/// By so many vectors, about, it is decided whether codes are about a centre, and which one.
const SAMPLED: usize = 512;

/// Places among the rows of a collection where those are that tell the centre.
const PLACES: u64 = 16;
/// Slices of rows that are read at each place at most to find some with vectors.
const SLICES: usize = 64;

/// Of an index with more vectors nothing is coded again.
const MOST: u64 = 4096;
/// An index that has shrunk to such a part of what was judged is judged as if it had not been: others may have come.
const SHRUNK: u64 = 4;

/// How many vectors those indexes had that were judged, or found to have a centre, by the numbers of their tables. What is not known, after a start
/// for example, is judged again. What a transaction notes does not count if its changes do not.
#[derive(Debug, Default)]
pub(super) struct Judged(Mutex<HashMap<u32, u64>>);

impl Judged {
    /// Whether an index that has so many vectors is to be judged when it gets more, unless it has a centre, which this does not know.
    fn is_due(&self, table: &Table, before: u64, after: u64) -> bool {
        let at = if self.has_shrunk(table, before) { 0 } else { self.at(table) };
        before == 0
            || Centre::STEPS
                .iter()
                .map(|step| *step as u64)
                .find(|step| *step > at)
                .is_some_and(|step| after >= step)
    }

    /// With how many vectors it was judged; 0 if it was not.
    fn at(&self, table: &Table) -> u64 {
        lock(&self.0).get(&table.id()).copied().unwrap_or(0)
    }

    /// Whether it has so few that it is as if it had not been judged, which is to be noted.
    fn has_shrunk(&self, table: &Table, vectors: u64) -> bool {
        vectors < self.at(table) / SHRUNK
    }

    /// Returns what was noted before.
    fn note(&self, table: u32, vectors: u64) -> Option<u64> {
        lock(&self.0).insert(table, vectors)
    }

    fn restore(&self, table: u32, before: Option<u64>) {
        match before {
            Some(vectors) => {
                self.note(table, vectors);
            }
            None => self.forget(table),
        }
    }

    /// Forgets an index that was dropped.
    pub(super) fn forget(&self, table: u32) {
        lock(&self.0).remove(&table);
    }
}

/// The centre of an index of the rows of a collection, if they are alike, and what its links are chosen with.
pub(super) fn of_rows(
    def: &VectorDef,
    reads: &impl Reads,
    meta: &Meta,
) -> Result<Option<(Centre, Option<Reach>)>> {
    if !may_have_centre(def) {
        return Ok(None);
    }
    let (mut sample, end) = (Vec::new(), reads.next_row(&meta.rows)?);
    let (wanted, mut unread) = (SAMPLED / PLACES as usize, Some(0));
    for place in 0..PLACES {
        // Rows of collections with such an index have at most 40 bits. None of few is read twice.
        let place = end.saturating_mul(place) / PLACES;
        let (mut next, mut found, mut slices) = (unread.map(|unread| place.max(unread)), 0, 0);
        // Not all documents have vectors.
        while let Some(from) = next.filter(|_| found < wanted && slices < SLICES) {
            let slice = bulk::read(def, reads, meta, from, wanted)?;
            found += slice.vectors.len();
            slices += 1;
            sample.extend(slice.vectors);
            next = slice.next;
        }
        unread = next;
    }
    let sample: Vec<&[f32]> = sample.iter().map(|(_, vector)| vector.as_slice()).collect();
    Ok(judge(def, &sample))
}

/// Begins a build that adds row by row: with a centre, if the rows are alike. Returns the flags that the index has then, and its table, if that is
/// another one now.
pub(super) fn begin(
    def: &VectorDef,
    txn: &mut WriteTxn,
    meta: &Meta,
    index: &IndexMeta,
) -> Result<(IndexFlags, Option<Table>)> {
    let (table, none) = (&index.table, IndexFlags::default());
    if centre_in(def, txn, table)?.is_some() {
        return Ok((none, None));
    }
    let Some(centre) = of_rows(def, txn, meta)? else { return Ok((none, None)) };
    // Others may have added any number of nodes since the index was created: too many to be coded again in one transaction are left out, as the
    // build comes by their rows.
    if nodes_in(txn.len(table)?) > MOST {
        let name = index_table(meta.id, index.id);
        txn.drop_table(&name)?;
        let table = txn.create_table(&name, TableKind::Rows)?;
        let flags = Built::new(graph_about(def, Some(centre)), Vec::new()).store_head(txn, &table)?;
        return Ok((flags, Some(table)));
    }
    let nodes = nodes(txn, table)?;
    Ok((code_again(def, txn, meta, table, centre, nodes)?.unwrap_or(none), None))
}

/// Is called before `new` vectors are added to an index. Returns the flags that it has now: it got a centre if they make it so many that it
/// is judged, and they and those that it has are alike.
pub(super) fn grow(
    def: &VectorDef,
    txn: &mut WriteTxn,
    meta: &Meta,
    index: &IndexMeta,
    new: &[(u64, Vec<f32>)],
) -> Result<IndexFlags> {
    let (table, none) = (&index.table, IndexFlags::default());
    // A build judges by all documents; one that waits for the other fields of its search index has done so.
    let is_built = index.building.is_none_or(|next| next == BUILT);
    if new.is_empty() || !may_have_centre(def) || !is_built {
        return Ok(none);
    }
    let (before, judged) = (nodes_in(txn.len(table)?), meta.images.judged());
    let after = before.saturating_add(new.len() as u64);
    if before > MOST {
        return Ok(none);
    }
    let (is_due, has_shrunk) = (judged.is_due(table, before, after), judged.has_shrunk(table, before));
    if is_due || has_shrunk {
        let (images, id) = (Arc::clone(&meta.images), table.id());
        let noted_before = judged.note(id, if is_due { after } else { 0 });
        txn.if_undone(move || images.judged().restore(id, noted_before));
    }
    if !is_due {
        return Ok(none);
    }
    let now = centre_and_reach_in(def, txn, table)?;
    // Links that are chosen without a reach stay as they are.
    if matches!(now, Some((_, None))) {
        return Ok(none);
    }
    let nodes = nodes(txn, table)?;
    let step = ((nodes.len() + new.len()) / SAMPLED).max(1);
    let mut sample = Vec::new();
    let sampled: Vec<u64> = nodes.iter().step_by(step).copied().collect();
    let is_whole = visit_vectors(def, &View { reads: &*txn, meta }, &sampled, &mut |vector| {
        sample.push(vector.to_vec());
        Ok(())
    })?;
    let from = (step - nodes.len() % step) % step;
    let new = new.iter().skip(from).step_by(step).map(|(_, vector)| vector.as_slice());
    let sample: Vec<&[f32]> = sample.iter().map(Vec::as_slice).chain(new).collect();
    let of_sample = judge(def, &sample).filter(|_| is_whole);
    let has_outgrown = |(centre, reach): &(Arc<Centre>, Option<Reach>)| {
        reach.is_some_and(|reach| !centre.is_within(reach, &sample))
    };
    let stays = now.is_some_and(|now| !has_outgrown(&now));
    let flags = match of_sample.filter(|_| !stays) {
        Some(centre) => code_again(def, txn, meta, table, centre, nodes)?,
        None => None,
    };
    Ok(flags.unwrap_or(none))
}

/// The nodes of an index, those of each row together.
fn nodes(reads: &impl Reads, table: &Table) -> Result<Vec<u64>> {
    let mut nodes = Vec::new();
    if nodes_in(reads.len(table)?) > 0 {
        let mut rows = reads.rows(table, 0)?;
        while let Some((row, _)) = rows.lend_next()? {
            nodes.extend(node_of_vector_row(row));
        }
    }
    nodes.sort_unstable_by_key(|node| (row_of(*node), position_of(*node)));
    Ok(nodes)
}

/// Calls `visit` with the vectors of some nodes, those of each row together, one after another. False, at the first that its row does not
/// have, or that cannot be read: something is damaged.
fn visit_vectors(
    def: &VectorDef,
    view: &View<'_, impl Reads>,
    nodes: &[u64],
    visit: &mut dyn FnMut(&[f32]) -> Result<()>,
) -> Result<bool> {
    let fields = def.fields();
    for nodes in nodes.chunk_by(|a, b| row_of(*a) == row_of(*b)) {
        let row = nodes.first().map_or(0, |node| row_of(*node));
        let mut left = nodes.iter().peekable();
        let read = view.fetch_row(RowId(row), &mut |document| {
            for (position, vector) in def.vectors(document.partial_document(&fields)?)?.iter() {
                let node = node_of(def, row, position)?;
                if left.next_if_eq(&&node).is_some() {
                    visit(vector)?;
                }
            }
            Ok(())
        });
        if let Err(error) = read {
            // Inserts of other documents do not fail because of it.
            tracing::warn!(index = def.name, row, %error, "a document whose vectors are in an index cannot be read");
            return Ok(false);
        }
        if left.next().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Codes the nodes of an index, which are all that it has, about a centre, and links them anew; returns the flags that it has then. `None`, and
/// nothing is changed, if it is damaged: a check finds out in which way.
fn code_again(
    def: &VectorDef,
    txn: &mut WriteTxn,
    meta: &Meta,
    table: &Table,
    centre: (Centre, Option<Reach>),
    nodes: Vec<u64>,
) -> Result<Option<IndexFlags>> {
    let graph = graph_about(def, Some(centre));
    let mut builder = Builder::new(graph, meta.images.build_threads(), Undisturbed);
    let is_whole = visit_vectors(def, &View { reads: &*txn, meta }, &nodes, &mut |vector| {
        builder.add(vector).map(drop).map_err(|_| damaged(def, "a vector"))
    })?;
    if !is_whole {
        return Ok(None);
    }
    let built = Built::new(builder.finish(), nodes);
    built.store_nodes(def, txn, table, 0..built.len())?;
    built.store_head(txn, table).map(Some)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};
    use treedb_storage::disk::SimDisk;
    use treedb_testing::Alike;

    use super::super::record::CENTRE;
    use super::*;
    use crate::tests::open;
    use crate::{Collection, Database, DeleteRequest, IndexSpec};

    const DIMENSIONS: usize = 16;

    /// A collection that has an index, and no documents yet.
    fn indexed() -> (Database, Collection) {
        let db = open(&SimDisk::new()).unwrap();
        let things = db.collection("shop.things").unwrap();
        let definition = rawdoc! {
            "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "euclidean", "quantization": "scalar",
        };
        things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
        (db, things)
    }

    /// The table of its index.
    fn table(db: &Database) -> Table {
        db.store().begin_read().unwrap().table("index/1/1").unwrap().unwrap()
    }

    fn document(vectors: &mut Alike, id: i32) -> RawDocumentBuf {
        let vector: bson::RawArrayBuf = vectors.vector().into_iter().map(f64::from).collect();
        rawdoc! { "_id": id, "v": vector }
    }

    #[test]
    fn an_index_is_judged_at_each_step_once_and_again_after_it_has_shrunk() {
        let table = table(&indexed().0);
        let judged = Judged::default();
        let grow = |before: u64, after: u64| {
            let is_due = judged.is_due(&table, before, after);
            if is_due {
                judged.note(table.id(), after);
            }
            is_due
        };
        assert!(
            grow(0, 1) && !grow(1, 2) && !grow(2, 31) && grow(31, 32) && !grow(32, 255) && grow(255, 256)
        );
        // One that has so many always, as documents come and go.
        assert!(!grow(255, 256) && !grow(200, 1000) && !grow(4094, 4095) && grow(4095, 4096));
        assert!(!grow(4096, 4097) && !grow(1024, 4096) && grow(1023, 1024));
        assert!(grow(0, 5000) && !grow(5000, 100_000) && grow(0, 10) && grow(10, 300) && !grow(300, 4000));
    }

    #[test]
    fn that_an_index_has_shrunk_is_noted_if_what_it_shrank_for_stays() {
        let (db, things) = indexed();
        let mut vectors = Alike::new(1, DIMENSIONS, 0.0);
        let documents: Vec<_> = (0..100).map(|id| document(&mut vectors, id)).collect();
        things.insert_many(&documents, true).unwrap();
        let table = table(&db);
        let at = || db.inner.catalog.images().judged().at(&table);
        let judged_at = at();
        assert!(judged_at >= 32, "{judged_at}");
        let most = || DeleteRequest::many(rawdoc! { "_id": { "$gte": 2 } });
        let mut txn = db.begin().unwrap();
        txn.collection("shop.things").unwrap().delete(most()).unwrap();
        txn.collection("shop.things").unwrap().insert_one(document(&mut vectors, 200)).unwrap();
        drop(txn);
        assert_eq!(at(), judged_at);
        things.delete(most()).unwrap();
        things.insert_one(document(&mut vectors, 200)).unwrap();
        assert_eq!(at(), 0);
        (300..328).for_each(|id| drop(things.insert_one(document(&mut vectors, id)).unwrap()));
        assert_eq!(at(), 0);
        things.insert_one(document(&mut vectors, 400)).unwrap();
        assert_eq!(at(), 32);
    }

    #[test]
    fn an_index_with_a_centre_is_asked_for_it_when_it_gets_one_and_at_the_next_steps_only() {
        let (db, things) = indexed();
        let mut vectors = Alike::new(1, DIMENSIONS, 100.0);
        let judged = db.inner.catalog.images().judged();
        let mut due = Vec::new();
        for id in 0..300 {
            if id > 0 && judged.is_due(&table(&db), id as u64, id as u64 + 1) {
                due.push(id);
            }
            things.insert_one(document(&mut vectors, id)).unwrap();
        }
        assert_eq!(due, [31, 255]);
        let reads = db.store().begin_read().unwrap();
        assert!(reads.visit_row(&table(&db), CENTRE, &mut |_| ()).unwrap());
    }
}
