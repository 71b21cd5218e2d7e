//! Building the image of a vector index from its table, and following the table's changes.
//!
//! Both read the table in parts, each in the snapshot of another search, so that no search reads for long, and the memory
//! of old versions can be given up in between; until the last part searches use the table. What was changed between the snapshots is read
//! afterwards: a page of the table says which transaction wrote it, so that only new pages are read.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::ops::{Range, RangeBounds};

use foldhash::quality::FixedState;
use treedb_query::access::{RowId, Source};
use treedb_query::error::Result;
use treedb_query::index::vector::{VectorDef, Vectors};
use treedb_storage::{Reads, Table, TableVersion};
use treedb_vector::graph::{Link, NodesMut};
use treedb_vector::memory::{MemoryGraph, Records};
use treedb_vector::metric::Unfit;

use super::graph::{NodeHasher, StoredGraph, empty_graph};
use super::image::Image;
use super::record::{
    HEAD, coded, damaged, for_each_link, level_of, node_of, node_of_vector_row, position_of, row_of,
    vector_in,
};
use crate::read::view::View;

/// Elements of vectors that a search reads for an image that is being built: some milliseconds.
#[cfg(not(test))]
const STEP_ELEMENTS: usize = 1 << 20;
/// Small in tests, so that writes come between the parts of a build.
#[cfg(test)]
const STEP_ELEMENTS: usize = 1 << 13;

/// So many times as much is read at once of what is new: most of that is on new pages, but has not changed.
#[cfg(not(test))]
const FOLLOWED_STEPS: usize = 16;
#[cfg(test)]
const FOLLOWED_STEPS: usize = 1;

/// Bytes of an entry of a map of nodes, with what the map needs besides.
const MAP_ENTRY: usize = 32;

/// How far an image is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has what the snapshot sees.
    Complete,
    /// Some of the table was not read yet.
    Partial,
    /// It has changes that the snapshot does not see.
    Older,
    /// It takes too much memory, or the graph has more nodes above level 0 than it can number.
    TooLarge,
}

/// The newest image of an index, while it changes.
#[derive(Debug)]
pub(super) struct Follower {
    graph: MemoryGraph,
    /// The number that each node has in the table; 0 for a node without a vector: one that was linked to before its vector was
    /// read.
    numbers: Records<u64>,
    /// The nodes by these numbers.
    nodes: BTreeMap<u64, u32>,
    /// A hash of the record of each node's links that was read last: a page that is new has mostly records that are not.
    linked: Vec<u64>,
    /// How many nodes were forgotten. A record with a link to one of them stands for other nodes in memory when it comes back.
    forgotten: u64,
    /// Some row had several vectors.
    several: bool,
    /// How many nodes have a vector.
    vectors: usize,
    /// The rows of the table that are still to be read, ascending: all of them at first, later those that are new.
    unread: VecDeque<Range<u64>>,
    /// What was changed up to this transaction is in, but for the unread rows; 0 before the first part.
    since: u64,
    /// What documents were changed up to this transaction is in, also for the unread rows that are not new.
    documents_since: u64,
    /// The newest transaction that anything was read of: it may have what older snapshots do not see.
    newest: u64,
}

impl Follower {
    pub(super) fn new(def: &VectorDef) -> Follower {
        let graph = empty_graph(def).without_scores();
        let (numbers, nodes, linked) = (Records::new(1), BTreeMap::new(), Vec::new());
        let unread = VecDeque::from_iter(std::iter::once(0..u64::MAX));
        let (since, documents_since, newest) = (0, 0, 0);
        Follower {
            graph,
            numbers,
            nodes,
            linked,
            forgotten: 0,
            several: false,
            vectors: 0,
            unread,
            since,
            documents_since,
            newest,
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let linked = size_of::<u64>() * self.linked.capacity();
        (self.graph.bytes() + self.numbers.bytes() + MAP_ENTRY * self.nodes.len() + linked) as u64
    }

    /// The graph and the numbers of its nodes.
    pub(super) fn contents(&self) -> (&MemoryGraph, &Records<u64>) {
        (&self.graph, &self.numbers)
    }

    /// What it has now, as the image of a version of the table.
    pub(super) fn image(&self, version: TableVersion) -> Image {
        let (graph, numbers) = (self.graph.clone(), self.numbers.clone());
        Image { version, graph, numbers, several: self.several }
    }

    /// Whether some of the table was not read yet.
    pub(super) fn is_partial(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Bytes that an image of so many nodes takes, with some to spare.
    fn bytes_of(&self, nodes: usize) -> u64 {
        let each = MAP_ENTRY + size_of::<u64>();
        let bytes = self.graph.bytes_of(nodes) + self.numbers.bytes_of(nodes) + each * nodes;
        // More of them than on average may be above level 0.
        (bytes + bytes / 16) as u64
    }

    /// Reads more of the table, or what is new in it. After an error it is of no use.
    pub(super) fn advance(
        &mut self,
        def: &VectorDef,
        view: &View<'_, impl Reads>,
        table: &Table,
        room: u64,
    ) -> Result<Progress> {
        let Some(now) = view.reads.committed().filter(|now| *now >= self.newest) else {
            return Ok(Progress::Older);
        };
        self.newest = now;
        let nodes = view.reads.len(table)? / 2;
        if nodes > u64::from(u32::MAX) || self.bytes_of(nodes as usize) > room {
            return Ok(Progress::TooLarge);
        }
        let (loaded, new_documents) = (HashSet::default(), None);
        let mut reading = Reading { follower: self, def, view, table, loaded, new_documents };
        let follower = &mut *reading.follower;
        if follower.since == 0 {
            (follower.since, follower.documents_since) = (now, now);
        }
        let step = 2 * (STEP_ELEMENTS / def.dimensions.max(1)).max(100);
        let mut complete = reading.read(step)?;
        let follower = &mut *reading.follower;
        if complete && follower.since < now {
            follower.unread = view.reads.new_rows(table, follower.since)?.into();
            (follower.documents_since, follower.since) = (follower.since, now);
            complete = reading.read(FOLLOWED_STEPS * step)?;
        }
        if reading.follower.graph.is_full() {
            return Ok(Progress::TooLarge);
        }
        if !complete {
            return Ok(Progress::Partial);
        }
        reading.finish(nodes)?;
        Ok(Progress::Complete)
    }

    /// The node of this number in the table; a new one, without a vector, if there is none.
    fn node(&mut self, number: u64) -> u32 {
        match self.nodes.get(&number) {
            Some(node) => *node,
            None => {
                let node = self.graph.add_node();
                if node as usize == self.numbers.count() {
                    self.numbers.push();
                }
                self.nodes.insert(number, node);
                node
            }
        }
    }

    /// Sets the vector of a node.
    fn set_vector(&mut self, number: u64, vector: &[f32]) -> std::result::Result<(), Unfit> {
        let node = self.node(number);
        self.graph.set_vector(node, vector)?;
        self.vectors += usize::from(!self.has_vector(node));
        self.numbers.get_mut(node).fill(number);
        self.several |= position_of(number) > 0;
        Ok(())
    }

    /// Forgets a node.
    fn forget(&mut self, number: u64) {
        if let Some(node) = self.nodes.remove(&number) {
            self.vectors -= usize::from(self.has_vector(node));
            self.graph.forget(node);
            self.numbers.get_mut(node).fill(0);
            self.forgotten += 1;
        }
    }

    /// Forgets the nodes whose numbers are in a range and not `there`, which is ascending.
    fn forget_missing(&mut self, numbers: impl RangeBounds<u64>, there: &[u64]) {
        let known = self.nodes.range(numbers).map(|(number, _)| *number);
        let gone: Vec<u64> = known.filter(|number| there.binary_search(number).is_err()).collect();
        gone.into_iter().for_each(|number| self.forget(number));
    }

    /// Whether the links of a node have to be taken from `record`, and notes that they were.
    fn is_new_of_links(&mut self, node: u32, record: &[u8]) -> bool {
        let mut hasher = FixedState::with_seed(self.forgotten).build_hasher();
        hasher.write(record);
        let (hash, node) = (hasher.finish(), node as usize);
        if node >= self.linked.len() {
            self.linked.resize(node + 1, 0);
        }
        let Some(known) = self.linked.get_mut(node) else { return true };
        std::mem::replace(known, hash) != hash
    }

    /// Whether a node has a vector.
    fn has_vector(&self, node: u32) -> bool {
        self.numbers.get(node).first().is_some_and(|number| *number != 0)
    }
}

/// Reading a table in one snapshot.
struct Reading<'r, R> {
    follower: &'r mut Follower,
    def: &'r VectorDef,
    view: &'r View<'r, R>,
    table: &'r Table,
    /// The rows with several vectors whose vectors were all taken from the document.
    loaded: HashSet<u64, BuildHasherDefault<NodeHasher>>,
    /// Which documents may be newer than a transaction: see [`Reads::new_rows`].
    new_documents: Option<(u64, Vec<Range<u64>>)>,
}

impl<R: Reads> Reading<'_, R> {
    /// Reads at most so many of the rows that are to be read; true if there are no more.
    fn read(&mut self, most: usize) -> Result<bool> {
        let mut left = most;
        while let Some(range) = self.follower.unread.pop_front() {
            let (mut there, mut stopped) = (Vec::new(), None);
            let mut rows = self.view.reads.rows(self.table, range.start)?;
            while let Some((row, record)) = rows.lend_next()? {
                if row >= range.end {
                    break;
                }
                if left == 0 {
                    stopped = Some(row);
                    break;
                }
                left -= 1;
                self.row(row, record)?;
                there.extend(node_of_vector_row(row));
            }
            let end = stopped.unwrap_or(range.end);
            self.follower.forget_missing(range.start / 2..end / 2, &there);
            if let Some(row) = stopped {
                self.follower.unread.push_front(row..range.end);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes a row of the table over.
    fn row(&mut self, row: u64, record: &[u8]) -> Result<()> {
        match node_of_vector_row(row) {
            Some(number) => self.vector(number, record),
            None if row == HEAD => Ok(()),
            None => self.links(row / 2, record),
        }
    }

    fn vector(&mut self, number: u64, record: &[u8]) -> Result<()> {
        if let Some(vector) = vector_in(self.def, record) {
            return self.set_vector(number, &vector);
        }
        let row = row_of(number);
        if self.loaded.contains(&row) {
            return Ok(());
        }
        let node = self.follower.node(number);
        let (now, then) = (coded(record), self.follower.graph.coded(node));
        let known = self.follower.has_vector(node) && now.codes == then.codes && now.factors == then.factors;
        // The same codes may stand for another vector, if the document was changed.
        if known && !self.may_be_new(row)? {
            return Ok(());
        }
        let vectors = document_vectors(self.def, self.view, row)?;
        for (position, vector) in vectors.iter() {
            self.set_vector(node_of(self.def, row, position)?, vector)?;
        }
        if vectors.len() > 1 {
            self.loaded.insert(row);
        }
        Ok(())
    }

    /// False if a document has not been changed since [`Follower::documents_since`].
    fn may_be_new(&mut self, row: u64) -> Result<bool> {
        let since = self.follower.documents_since;
        let ranges = match self.new_documents.take().filter(|(asked, _)| *asked == since) {
            Some((_, ranges)) => ranges,
            None => self.view.reads.new_rows(&self.view.meta.rows, since)?,
        };
        let after = ranges.partition_point(|range| range.start <= row);
        let range = after.checked_sub(1).and_then(|at| ranges.get(at));
        let may_be = range.is_some_and(|range| range.contains(&row));
        self.new_documents = Some((since, ranges));
        Ok(may_be)
    }

    fn set_vector(&mut self, number: u64, vector: &[f32]) -> Result<()> {
        self.follower.set_vector(number, vector).map_err(|_| damaged(self.def, "a node"))
    }

    fn links(&mut self, number: u64, record: &[u8]) -> Result<()> {
        let broken = || damaged(self.def, "a node");
        let node = self.follower.node(number);
        if !self.follower.is_new_of_links(node, record) {
            return Ok(());
        }
        let top = level_of(record).ok_or_else(broken)?;
        self.follower.graph.set_level(node, top);
        let mut links: Vec<Link<u32>> = Vec::new();
        for level in 0..=top {
            links.clear();
            let follower = &mut *self.follower;
            for_each_link(record, level, &mut |link| {
                links.push(Link { score: link.score, node: follower.node(link.node) });
            })
            .ok_or_else(broken)?;
            let Ok(()) = follower.graph.set_links(node, level, &links);
        }
        Ok(())
    }

    /// Sets where searches begin, once all has been read. Forgets the nodes whose deletion no new page tells: see
    /// [`Reads::new_rows`].
    fn finish(&mut self, nodes: u64) -> Result<()> {
        if self.follower.nodes.len() as u64 != nodes {
            let mut there = Vec::new();
            let mut rows = self.view.reads.rows(self.table, 0)?;
            while let Some((row, _)) = rows.lend_next()? {
                there.extend(node_of_vector_row(row));
            }
            self.follower.forget_missing(.., &there);
        }
        let follower = &mut *self.follower;
        let known =
            |number: u64| follower.nodes.get(&number).copied().filter(|node| follower.has_vector(*node));
        let whole = [follower.nodes.len(), follower.vectors].iter().all(|count| *count as u64 == nodes);
        let entry = match StoredGraph::new(self.def, self.view.reads, self.table).head()?.entry {
            Some((number, level)) => known(number).map(|node| Some((node, level))),
            None => Some(None),
        };
        let Some(entry) = entry.filter(|_| whole) else { return Err(damaged(self.def, "the graph")) };
        let Ok(()) = follower.graph.set_entry(entry);
        Ok(())
    }
}

/// The vectors of a document that is in the index.
pub(super) fn document_vectors(def: &VectorDef, view: &View<'_, impl Reads>, row: u64) -> Result<Vectors> {
    let fields = def.fields();
    let mut found = Vectors::default();
    view.fetch_row(RowId(row), &mut |document| {
        found = def.vectors(document.partial_document(&fields)?)?;
        Ok(())
    })?;
    if found.is_empty() { Err(damaged(def, "a node")) } else { Ok(found) }
}
