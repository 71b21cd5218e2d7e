//! Building the image of a vector index from its table, and following the table's changes.
//!
//! Both read the table in parts, each in the snapshot of another search, so that no search reads for long, and the memory
//! of old versions can be given up in between; until the last part searches use the table. What was changed between the snapshots is read
//! afterwards: the rows that the commits between them changed ([`Reads::changed_rows`]); where these are not known, the pages that are
//! new, since a page of the table says which transaction wrote it.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::ops::{Range, RangeBounds};
use std::sync::Arc;

use foldhash::quality::FixedState;
use treedb_query::access::{RowId, Source};
use treedb_query::doc::Fields;
use treedb_query::error::Result;
use treedb_query::index::vector::{VectorDef, Vectors};
use treedb_storage::{Reads, Table};
use treedb_vector::centre::Centre;
use treedb_vector::graph::{Link, Nodes, NodesMut};

use super::graph::{NodeSet, StoredGraph};
use super::image::Contents;
use super::record::{
    CENTRE, HEAD, centre_in, damaged, for_each_link, level_of, node_of, node_of_vector_row, nodes_in,
    position_of, row_of, vector_in,
};
use super::row_nodes::RowNodes;
use crate::read::view::View;

/// Elements of vectors that a search reads for an image that is being built: some milliseconds.
#[cfg(not(test))]
pub(super) const STEP_ELEMENTS: usize = 1 << 20;
/// Small in tests, so that writes come between the parts of a build.
#[cfg(test)]
pub(super) const STEP_ELEMENTS: usize = 1 << 13;

/// So many times as much is read at once of what is new: most of that is links, or on new pages, but has not changed.
#[cfg(not(test))]
const FOLLOWED_STEPS: usize = 16;
#[cfg(test)]
const FOLLOWED_STEPS: usize = 1;

/// Bytes of an entry of a map of nodes, with what the map needs besides.
const MAP_ENTRY: usize = 32;

/// Nodes of a saved image that a search lists at most: some ten milliseconds.
#[cfg(not(test))]
const LISTED: usize = 1 << 18;
/// Few in tests, so that writes come between the parts.
#[cfg(test)]
const LISTED: usize = 500;

/// How far an image is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has what the snapshot sees.
    Complete,
    /// Some of the table was not read yet.
    Partial,
    /// It would take too much memory, which is known before anything is read.
    TooLarge,
    /// The graph has more nodes above level 0 than it can number, which is known only once they are read.
    Full,
    /// It has nodes whose codes are about another centre than those of the table.
    OtherCentre,
}

/// What is known of the newest contents of an image, to bring them up to date.
#[derive(Debug, Default)]
pub(super) struct Follower {
    /// The nodes by their numbers in the table.
    nodes: BTreeMap<u64, u32>,
    /// Nodes of an image from a file that are not among `nodes` yet: they are listed when the first change is followed.
    unlisted: Range<u32>,
    /// A hash of the record of each node's links that was read last: a page that is new has mostly records that are not.
    linked: Vec<u64>,
    /// How many nodes were forgotten. A record with a link to one of them stands for other nodes in memory when it comes back.
    forgotten: u64,
    /// How many nodes have a vector.
    vectors: usize,
    /// The rows of the table that are still to be read, ascending: those that are new, or may be.
    unread: VecDeque<Range<u64>>,
    /// Each of them was changed; otherwise most are as they were.
    all_changed: bool,
    /// What was changed up to this transaction is in, but for the unread rows; 0 before the first part.
    since: u64,
    /// What documents were changed up to this transaction is in, also for the unread rows that are not new.
    documents_since: u64,
    /// The newest transaction that anything was read of: it may have what older snapshots do not see.
    newest: u64,
}

impl Follower {
    /// That of an image that was saved with what was committed up to transaction `since`; its nodes all have a vector.
    pub(super) fn of_saved(contents: &Contents, since: u64) -> Follower {
        let (vectors, unlisted) = (contents.graph.len(), 0..contents.numbers.count() as u32);
        Follower { vectors, unlisted, since, documents_since: since, newest: since, ..Follower::default() }
    }

    /// The last transaction whose changes it has, but for those that it is to read yet; 0 before it has read any.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// How many nodes there are.
    fn count(&self) -> usize {
        // Until they are listed, nothing has changed.
        if self.unlisted.is_empty() { self.nodes.len() } else { self.vectors }
    }

    /// Lists nodes that are not listed yet, about `most` of them; true if all are.
    ///
    /// # Errors
    /// Two have one number: what they were read from is damaged.
    fn list(&mut self, contents: &Contents, def: &VectorDef, most: usize) -> Result<bool> {
        for node in self.unlisted.by_ref().take(most) {
            let number = contents.number(node);
            if number != 0 && self.nodes.insert(number, node).is_some() {
                return Err(damaged(def, "a saved image"));
            }
        }
        if !self.unlisted.is_empty() {
            return Ok(false);
        }
        if self.nodes.len() == self.vectors { Ok(true) } else { Err(damaged(def, "a saved image")) }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        (MAP_ENTRY * self.nodes.len() + size_of::<u64>() * self.linked.capacity()) as u64
    }

    /// Whether some of the table was not read yet.
    pub(super) fn is_partial(&self) -> bool {
        !self.unread.is_empty()
    }

    /// What `view` has committed up to; `None` if the contents may have changes that it does not see.
    pub(super) fn sees(&self, view: &View<'_, impl Reads>) -> Option<u64> {
        view.reads.committed().filter(|now| *now >= self.newest)
    }

    /// Bytes that an image of so many nodes takes, with some to spare.
    pub(super) fn bytes_of(contents: &Contents, nodes: usize) -> u64 {
        let each = MAP_ENTRY + size_of::<u64>();
        let numbers = contents.numbers.bytes_of(nodes) + RowNodes::bytes_of(nodes);
        let bytes = contents.graph.bytes_of(nodes) + numbers + each * nodes;
        // More of them than on average may be above level 0.
        (bytes + bytes / 16) as u64
    }

    /// The same of an image that is in its file as a whole.
    pub(super) fn bytes_of_mapped(contents: &Contents, nodes: usize) -> u64 {
        let each = MAP_ENTRY + size_of::<u64>();
        let numbers = contents.numbers.bytes_of_mapped(nodes) + RowNodes::bytes_of(nodes);
        let bytes = contents.graph.bytes_of_mapped(nodes) + numbers + each * nodes;
        (bytes + bytes / 16) as u64
    }

    /// Reads more of the table, or what is new in it, up to what `view` [sees](Follower::sees). After an error both it and
    /// the contents are of no use.
    pub(super) fn advance(
        &mut self,
        contents: &mut Contents,
        def: &VectorDef,
        view: &View<'_, impl Reads>,
        table: &Table,
        (now, room): (u64, u64),
    ) -> Result<Progress> {
        self.newest = now;
        let nodes = nodes_in(view.reads.len(table)?);
        if nodes > u64::from(u32::MAX) || Follower::bytes_of(contents, nodes as usize) > room {
            return Ok(Progress::TooLarge);
        }
        let centre = centre_in(def, view.reads, table)?;
        if !follow_centre(contents, def, centre.as_ref())? {
            return Ok(Progress::OtherCentre);
        }
        let (loaded, new_documents, known) = (HashSet::default(), None, Known::default());
        let rows_end = view.reads.next_row(&view.meta.rows)?;
        let mut reading = Reading {
            follower: self,
            contents,
            def,
            centre,
            fields: def.fields(),
            view,
            table,
            loaded,
            new_documents,
            known,
            rows_end,
        };
        let follower = &mut *reading.follower;
        if follower.since == 0 {
            (follower.since, follower.documents_since) = (now, now);
            follower.unread = VecDeque::from_iter(std::iter::once(0..u64::MAX));
        }
        let step = 2 * (STEP_ELEMENTS / def.dimensions.max(1)).max(100);
        let mut complete = reading.read(step)?;
        let follower = &mut *reading.follower;
        if complete && follower.since < now {
            follower.find_changed(view, table, now)?;
            (follower.documents_since, follower.since) = (follower.since, now);
            complete = reading.read(FOLLOWED_STEPS * step)?;
        }
        if reading.contents.graph.is_full() {
            return Ok(Progress::Full);
        }
        if complete {
            reading.finish(nodes)?;
        }
        if reading.contents.is_damaged() {
            return Err(damaged(def, "a saved image"));
        }
        Ok(if complete { Progress::Complete } else { Progress::Partial })
    }

    /// Finds the rows that are to be read, to have what was changed up to transaction `now`, which `view` sees.
    fn find_changed(&mut self, view: &View<'_, impl Reads>, table: &Table, now: u64) -> Result<()> {
        // Tests are for the pages too: they tell every third time.
        let changed =
            view.reads.changed_rows(table, self.since).filter(|_| !cfg!(test) || !now.is_multiple_of(3));
        match changed {
            Some(rows) => {
                let adjacent = rows.chunk_by(|row, next| row + 1 == *next);
                let ranges = adjacent.filter_map(|rows| Some(*rows.first()?..rows.last()? + 1));
                (self.unread, self.all_changed) = (ranges.collect(), true);
            }
            None => {
                let ranges = view.reads.new_rows(table, self.since)?;
                (self.unread, self.all_changed) = (ranges.into(), false);
            }
        }
        Ok(())
    }

    /// Whether the links of a node have to be taken from `record`, and notes that they were.
    fn is_new_of_links(&mut self, node: u32, record: &[u8]) -> bool {
        let mut hasher = FixedState::with_seed(self.forgotten).build_hasher();
        hasher.write(record);
        let (hash, node) = (hasher.finish(), node as usize);
        if node >= self.linked.len() {
            self.linked.resize(node + 1, 0);
        }
        self.linked.get_mut(node).is_none_or(|known| std::mem::replace(known, hash) != hash)
    }
}

/// In a range of more rows, nodes are looked up one by one: the first range is the whole table, of which nothing is known.
const NARROW: u64 = 1 << 14;

/// The nodes of the range that is being read, in the order of their numbers, which is that of the rows: most records of
/// a new page are of nodes that there were.
#[derive(Debug, Default)]
struct Known {
    nodes: Vec<(u64, u32)>,
    next: usize,
}

impl Known {
    /// Begins with another range of rows.
    fn fill(&mut self, nodes: &BTreeMap<u64, u32>, rows: &Range<u64>) {
        (self.next, _) = (0, self.nodes.clear());
        if rows.end - rows.start <= NARROW {
            self.nodes.extend(
                nodes.range(rows.start / 2..rows.end.div_ceil(2)).map(|(number, node)| (*number, *node)),
            );
        }
    }

    /// The node of a number that is not less than the one before.
    fn get(&mut self, number: u64) -> Option<u32> {
        while self.nodes.get(self.next).is_some_and(|(known, _)| *known < number) {
            self.next += 1;
        }
        self.nodes.get(self.next).filter(|(known, _)| *known == number).map(|(_, node)| *node)
    }
}

/// Reading a table in one snapshot.
struct Reading<'r, R> {
    follower: &'r mut Follower,
    contents: &'r mut Contents,
    def: &'r VectorDef,
    /// What the codes of the table are about.
    centre: Option<Arc<Centre>>,
    /// Where documents have their vectors.
    fields: Fields,
    view: &'r View<'r, R>,
    table: &'r Table,
    /// The rows with several vectors whose vectors were all taken from the document.
    loaded: NodeSet,
    /// Which documents may be newer than a transaction: see [`Reads::new_rows`].
    new_documents: Option<(u64, Vec<Range<u64>>)>,
    known: Known,
    /// All rows of the collection are below this number.
    rows_end: u64,
}

impl<R: Reads> Reading<'_, R> {
    /// Reads at most so many of the rows that are to be read; true if there are no more.
    fn read(&mut self, most: usize) -> Result<bool> {
        if self.follower.unread.is_empty() {
            return Ok(true);
        }
        if !self.follower.unlisted.is_empty() && !self.follower.list(self.contents, self.def, LISTED)? {
            return Ok(false);
        }
        let mut left = most;
        while let Some(range) = self.follower.unread.pop_front() {
            let (mut there, mut stopped) = (Vec::new(), None);
            self.known.fill(&self.follower.nodes, &range);
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
            self.forget_missing(range.start / 2..end / 2, &there);
            if let Some(row) = stopped {
                self.follower.unread.push_front(row..range.end);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The node of this number in the table; a new one, without a vector, if there is none.
    fn node(&mut self, number: u64) -> u32 {
        match self.follower.nodes.get(&number) {
            Some(node) => *node,
            None => {
                let node = self.contents.graph.add_node();
                if node as usize == self.contents.numbers.count() {
                    self.contents.numbers.push();
                }
                self.follower.nodes.insert(number, node);
                node
            }
        }
    }

    /// The node of the row that is being read.
    fn node_here(&mut self, number: u64) -> u32 {
        self.known.get(number).unwrap_or_else(|| self.node(number))
    }

    /// Forgets a node.
    fn forget(&mut self, number: u64) {
        if let Some(node) = self.follower.nodes.remove(&number) {
            self.follower.vectors -= usize::from(self.contents.has_vector(node));
            self.contents.graph.forget(node);
            self.contents.numbers.get_mut(node).fill(0);
            self.contents.set_node(row_of(number), position_of(number), None);
            self.follower.forgotten += 1;
        }
    }

    /// Forgets the nodes whose numbers are in a range and not `there`, which is ascending.
    fn forget_missing(&mut self, numbers: impl RangeBounds<u64>, there: &[u64]) {
        let mut there = there.iter().peekable();
        let known = self.follower.nodes.range(numbers).map(|(number, _)| *number);
        let is_gone = |number: &u64| {
            while there.next_if(|there| *there < number).is_some() {}
            there.peek() != Some(&number)
        };
        let gone: Vec<u64> = known.filter(is_gone).collect();
        gone.into_iter().for_each(|number| self.forget(number));
    }

    /// Takes a row of the table over.
    fn row(&mut self, row: u64, record: &[u8]) -> Result<()> {
        match node_of_vector_row(row) {
            Some(number) => self.vector(number, record),
            None if row == HEAD || row == CENTRE && self.centre.is_some() => Ok(()),
            None => self.links(row / 2, record),
        }
    }

    fn vector(&mut self, number: u64, record: &[u8]) -> Result<()> {
        let node = self.node_here(number);
        let row = row_of(number);
        // Of rows that only may be new, most are as they were.
        if !self.follower.all_changed && self.contents.has_vector(node) && !self.may_be_new(row)? {
            return Ok(());
        }
        if let Some(vector) = vector_in(self.def, self.centre.as_deref(), record) {
            return self.set_vector(number, &vector);
        }
        if self.loaded.contains(&row) {
            return Ok(());
        }
        let vectors = document_vectors(self.def, self.view, &self.fields, row)?;
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

    /// Sets the vector of a node.
    fn set_vector(&mut self, number: u64, vector: &[f32]) -> Result<()> {
        // The memory of rows is proportional to the greatest.
        if row_of(number) >= self.rows_end || position_of(number) >= Vectors::MOST as u64 {
            return Err(damaged(self.def, "the number of a node"));
        }
        let (node, contents) = (self.node(number), &mut *self.contents);
        contents.graph.set_vector(node, vector).map_err(|_| damaged(self.def, "a node"))?;
        self.follower.vectors += usize::from(!contents.has_vector(node));
        if contents.number(node) != number {
            contents.numbers.get_mut(node).fill(number);
            contents.set_node(row_of(number), position_of(number), Some(node));
        }
        Ok(())
    }

    fn links(&mut self, number: u64, record: &[u8]) -> Result<()> {
        let broken = || damaged(self.def, "a node");
        let node = self.node_here(number);
        if !self.follower.is_new_of_links(node, record) {
            return Ok(());
        }
        let top = level_of(record).ok_or_else(broken)?;
        self.contents.graph.set_level(node, top);
        let (mut before, mut links) = (Vec::new(), Vec::<Link<u32>>::new());
        for level in 0..=top {
            links.clear();
            let Ok(()) = self.contents.graph.links(node, level, &mut before);
            let mut before = &*before;
            for_each_link(record, level, &mut |link| {
                links.push(Link { score: link.score, node: self.linked(link.node, &mut before) });
            })
            .ok_or_else(broken)?;
            let Ok(()) = self.contents.graph.set_links(node, level, &links);
        }
        Ok(())
    }

    /// The node of this number, which is likely to be one of the next that were linked to `before`: of a record that
    /// changed, most links are as they were.
    fn linked(&mut self, number: u64, before: &mut &[u32]) -> u32 {
        const SKIPPED: usize = 2;
        // No node has the number 0, but those without a vector seem to.
        let is_same = |node: &u32| number != 0 && self.contents.number(*node) == number;
        let same = before.iter().take(1 + SKIPPED).position(is_same);
        match same.and_then(|at| before.get(at..)).and_then(<[u32]>::split_first) {
            Some((node, rest)) => {
                *before = rest;
                *node
            }
            None => self.node(number),
        }
    }

    /// Sets where searches begin, once all has been read. Forgets the nodes whose deletion no new page tells: see
    /// [`Reads::new_rows`].
    fn finish(&mut self, nodes: u64) -> Result<()> {
        let head = StoredGraph::new(self.def, self.view.reads, self.table)?.head()?;
        // Where searches begin is as it was, mostly.
        let Ok(begins) = self.contents.graph.entry();
        let same =
            head.entry.zip(begins).filter(|((number, _), (node, _))| self.contents.number(*node) == *number);
        let same = same.map(|((_, level), (node, _))| (node, level));
        if self.follower.count() as u64 != nodes || head.entry.is_some() && same.is_none() {
            self.follower.list(self.contents, self.def, usize::MAX)?;
        }
        if self.follower.count() as u64 != nodes {
            let mut there = Vec::new();
            let mut rows = self.view.reads.rows(self.table, 0)?;
            while let Some((row, _)) = rows.lend_next()? {
                there.extend(node_of_vector_row(row));
            }
            self.forget_missing(.., &there);
        }
        let (follower, contents) = (&*self.follower, &mut *self.contents);
        let known =
            |number: u64| follower.nodes.get(&number).copied().filter(|node| contents.has_vector(*node));
        let whole = [follower.count(), follower.vectors].iter().all(|count| *count as u64 == nodes);
        let entry = match head.entry {
            Some(_) if same.is_some() => Some(same),
            Some((number, level)) => known(number).map(|node| Some((node, level))),
            None => Some(None),
        };
        let Some(entry) = entry.filter(|_| whole) else { return Err(damaged(self.def, "the graph")) };
        let Ok(()) = contents.graph.set_entry(entry);
        Ok(())
    }
}

/// Makes the codes of a new image be about the centre of its table. False if those of one that is not new are about another one: a table
/// gets its centre when its first vectors come, also after all that it had have gone, or when it has grown (see [`super::centre`]).
fn follow_centre(contents: &mut Contents, def: &VectorDef, centre: Option<&Arc<Centre>>) -> Result<bool> {
    let graph = &mut contents.graph;
    if graph.centre() == centre {
        return Ok(true);
    }
    let Some(centre) = centre.filter(|_| contents.numbers.count() == 0 && graph.centre().is_none()) else {
        return Ok(false);
    };
    graph.set_centre(Arc::clone(centre));
    // Otherwise it would be built anew by every search.
    if graph.centre() == Some(centre) { Ok(true) } else { Err(damaged(def, "the centre")) }
}

/// The vectors of a document that is in the index; `fields` are those of its definition.
pub(super) fn document_vectors(
    def: &VectorDef,
    view: &View<'_, impl Reads>,
    fields: &Fields,
    row: u64,
) -> Result<Vectors> {
    let mut found = Vectors::default();
    view.fetch_row(RowId(row), &mut |document| {
        found = def.vectors(document.partial_document(fields)?)?;
        Ok(())
    })?;
    if found.is_empty() { Err(damaged(def, "a node")) } else { Ok(found) }
}
