//! A graph as bytes of a file that is mapped.
//!
//! | bytes | what |
//! |---|---|
//! | 40 | the head: numbers of nodes, of levels above level 0 and number 0, of free nodes and of free levels; the node where searches begin and its level; the root; 4 bytes each, of which all bits are set if there is none; 8 bytes that the levels of new nodes are drawn from; the number of elements of the centre, 4 bytes: 0 if there is none |
//! | 4 each | the elements of the centre |
//! | 4 each | free nodes, free levels |
//! | | codes with their factors, links, scores of links if the graph has them, vectors, of all nodes; levels above level 0 |
//!
//! Numbers are little-endian. Each of the five kinds of records begins at a multiple of 4,096 bytes, with zeros before it, and has the records of
//! whole segments: zeros beyond the last node. So a record of whole cache lines begins at one, if the first byte is at such a multiple in memory.
//! What records there are and how long they are is not among the bytes: who maps them has an empty graph that is alike.
//!
//! Only what is before the records is read when a graph is mapped. Records are used where they are; those of a segment are checked when the
//! first of them is asked for (see [`super::MappedFile`]), so that, whatever the bytes are, links are to nodes that there are, or a search finds out that
//! the file is damaged. Where the highest byte is first, graphs cannot be mapped.

use std::io::{self, Write};
use std::sync::Arc;

use super::mapped::{Check, KnownNodes, MappedFile, invalid};
use super::records::{PAGE, Records};
use super::segment::Number;
use super::streamed::Shape;
use super::vectors::Vectors;
use super::{MemoryGraph, nodes};
use crate::centre::Centre;

/// Bytes of the head.
const HEAD: usize = 40;
/// A node that there is not.
const NONE: u32 = u32::MAX;

/// That of records that may be any.
fn any<T>() -> Check<T> {
    Box::new(|_, _| true)
}

impl Vectors {
    fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => records.write_to(out),
            Vectors::Halves(records, _) => records.write_to(out),
            Vectors::Packed(records) => records.write_to(out),
        }
    }

    /// See [`Records::map`].
    fn map(&self, file: &Arc<MappedFile>, at: usize, count: usize) -> io::Result<(Vectors, usize)> {
        Ok(match self {
            Vectors::Floats(records) => {
                let (records, end) = records.map(file, at, count, any())?;
                (Vectors::Floats(records), end)
            }
            Vectors::Coded(records) => {
                let (records, end) = records.map(file, at, count, any())?;
                (Vectors::Coded(records), end)
            }
            Vectors::Halves(records, element) => {
                let (records, end) = records.map(file, at, count, any())?;
                (Vectors::Halves(records, *element), end)
            }
            Vectors::Packed(records) => {
                let (records, end) = records.map(file, at, count, any())?;
                (Vectors::Packed(records), end)
            }
        })
    }
}

/// What is known before the records are read.
#[derive(Debug, Clone, Copy)]
struct Head {
    nodes: usize,
    levels: usize,
    free: usize,
    free_levels: usize,
    entry: Option<(u32, u8)>,
    root: Option<u32>,
    random: u64,
    /// Elements of the centre.
    centre: usize,
}

impl Head {
    fn of(graph: &MemoryGraph) -> Head {
        let MemoryGraph { entry, root, random, codes, above, free, .. } = graph;
        Head {
            nodes: codes.records().count(),
            levels: above.count(),
            free: free.len(),
            free_levels: above.free.len(),
            entry: *entry,
            root: *root,
            random: *random,
            centre: graph.centre().map_or(0, |centre| centre.elements().len()),
        }
    }

    fn encode(&self) -> Vec<u8> {
        // Nodes and levels are numbered by 32 bits.
        let counts = [self.nodes, self.levels, self.free, self.free_levels].map(|count| count as u32);
        let (node, level) = self.entry.map_or((NONE, NONE), |(node, level)| (node, u32::from(level)));
        let mut out = Vec::with_capacity(HEAD);
        u32::write(&counts, &mut out);
        u32::write(&[node, level, self.root.unwrap_or(NONE)], &mut out);
        u64::write(&[self.random], &mut out);
        u32::write(&[self.centre as u32], &mut out);
        out
    }

    fn decode(bytes: &[u8; HEAD]) -> Option<Head> {
        let (mut numbers, mut random, mut centre) = ([0; 7], [0], [0]);
        let (before, after) = bytes.split_at_checked(size_of_val(&numbers))?;
        let (middle, after) = after.split_at_checked(size_of_val(&random))?;
        u32::read(before, &mut numbers);
        u64::read(middle, &mut random);
        u32::read(after, &mut centre);
        let ([nodes, levels, free, free_levels, node, level, root], [random], [centre]) =
            (numbers, random, centre);
        let entry = match (node, level) {
            (NONE, NONE) => None,
            (node, level) => Some((node, u8::try_from(level).ok()?)),
        };
        let sound = free <= nodes && free_levels < levels && levels as usize <= nodes::MOST_CHAINS;
        let [nodes, levels, free, free_levels] =
            [nodes, levels, free, free_levels].map(|count| count as usize);
        let root = (root != NONE).then_some(root);
        let centre = centre as usize;
        sound.then_some(Head { nodes, levels, free, free_levels, entry, root, random, centre })
    }
}

/// Writes what is before the records of a graph of this shape, of which `empty` has none yet.
pub(super) fn write_head_of(empty: &MemoryGraph, shape: Shape, out: &mut impl Write) -> io::Result<()> {
    let Shape { nodes, levels, entry } = shape;
    // With number 0.
    empty.write_before_records(Head { nodes, levels: 1 + levels, entry, ..Head::of(empty) }, out)
}

/// The numbers that so many bytes are.
fn numbers<T: Number>(bytes: &[u8]) -> Vec<T> {
    let mut numbers = vec![T::default(); bytes.len() / size_of::<T>()];
    T::read(bytes, &mut numbers);
    numbers
}

/// A graph in a file.
#[derive(Debug)]
pub struct MappedGraph {
    /// The graph.
    pub graph: MemoryGraph,
    /// Its nodes.
    pub nodes: Arc<KnownNodes>,
    /// Where the next bytes of the file are.
    pub end: usize,
}

impl MemoryGraph {
    /// Writes the graph, for [`MemoryGraph::map`].
    ///
    /// # Errors
    /// Those of `out`; `InvalidData` if it is one of a file that is damaged.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        self.write_before_records(Head::of(self), out)?;
        self.codes.records().write_to(out)?;
        self.links.write_to(out)?;
        if let Some(scores) = &self.scores {
            scores.write_to(out)?;
        }
        self.vectors.write_to(out)?;
        self.above.records.write_to(out)
    }

    fn write_before_records(&self, head: Head, out: &mut impl Write) -> io::Result<()> {
        let mut head = head.encode();
        f32::write(self.centre().map_or(&[], |centre| centre.elements()), &mut head);
        u32::write(&self.free, &mut head);
        u32::write(&self.above.free, &mut head);
        head.resize(head.len().next_multiple_of(PAGE), 0);
        out.write_all(&head)
    }

    /// The graph that a file begins with, as [`MemoryGraph::write_to`] has written it; `empty` is one that was made as it was. What it finds is of
    /// no use if the graph [is damaged](MemoryGraph::is_damaged) afterwards.
    ///
    /// # Errors
    /// `InvalidData` if it is no graph; `Unsupported` if this processor cannot use it.
    pub fn map(empty: MemoryGraph, file: &Arc<MappedFile>) -> io::Result<MappedGraph> {
        let (mut graph, mut at) = (empty, 0);
        let mut take = |count: usize, each: usize| {
            let end = count.checked_mul(each).and_then(|bytes| bytes.checked_add(at)).ok_or_else(invalid)?;
            file.read(std::mem::replace(&mut at, end)..end)
        };
        let head = take(HEAD, 1)?.try_into().ok().and_then(Head::decode).ok_or_else(invalid)?;
        if head.centre != 0 {
            if head.centre != graph.dimensions {
                return Err(invalid());
            }
            let elements = numbers(take(head.centre, size_of::<f32>())?);
            let centre = Centre::new(graph.metric, graph.element, elements).ok_or_else(invalid)?;
            graph.set_centre(Arc::new(centre));
            graph.centre().ok_or_else(invalid)?;
        }
        graph.free = numbers(take(head.free, size_of::<u32>())?);
        graph.above.free = numbers(take(head.free_levels, size_of::<u32>())?);
        // A list of more would be made for nothing.
        if head.nodes > file.len() || head.levels > file.len() {
            return Err(invalid());
        }
        let known = KnownNodes::new(head.nodes, head.levels, &graph.free, &graph.above.free);
        let known = Arc::new(known.ok_or_else(invalid)?);
        let there_is = |node: &u32| known.there_is(*node);
        if !head.entry.iter().all(|(node, _)| there_is(node)) || !head.root.iter().all(there_is) {
            return Err(invalid());
        }
        (graph.entry, graph.root, graph.random) = (head.entry, head.root, head.random);
        let at = at.next_multiple_of(PAGE);
        let (codes, at) = graph.codes.records().map(file, at, head.nodes, any())?;
        let (of_links, len) = (Arc::clone(&known), graph.links.len());
        let may_link: Check<u32> = Box::new(move |first, elements| {
            let mut records = (first as u32..).zip(elements.chunks_exact(len.max(1)));
            records.all(|(node, record)| of_links.may_have_links(node, record))
        });
        let (links, at) = graph.links.map(file, at, head.nodes, may_link)?;
        let (scores, at) = match &graph.scores {
            Some(scores) => {
                let (scores, at) = scores.map(file, at, head.nodes, any())?;
                (Some(scores), at)
            }
            None => (None, at),
        };
        let (vectors, at) = graph.vectors.map(file, at, head.nodes)?;
        let levels = Records::new(graph.above.records.len());
        let (of_levels, len) = (Arc::clone(&known), levels.len());
        let may_be_level: Check<u32> = Box::new(move |first, elements| {
            let mut records = (first as u32..).zip(elements.chunks_exact(len.max(1)));
            records.all(|(level, record)| of_levels.may_have_level(level, record))
        });
        let (levels, end) = levels.map(file, at, head.levels, may_be_level)?;
        *graph.codes.records_mut() = codes;
        graph.links = links;
        (graph.scores, graph.vectors, graph.above.records) = (scores, vectors, levels);
        graph.file = Some(Arc::clone(file));
        Ok(MappedGraph { graph, nodes: known, end })
    }

    /// Whether it is in a file of which anything was asked for that is not what was written: whatever was computed from the graph since is of
    /// no use.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.is_damaged())
    }

    /// Whether it is in a file, or was before all of it was changed.
    #[inline]
    pub fn is_mapped(&self) -> bool {
        self.file.is_some()
    }

    /// The nodes that were removed, in any order.
    pub fn free_nodes(&self) -> &[u32] {
        &self.free
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use treedb_testing::Rng;

    use super::*;
    use crate::graph::{Limits, Link, Nodes, NodesMut, Part};
    use crate::memory::mapped::MappedBytes;
    use crate::memory::{MappedFile, Searcher};
    use crate::metric::Metric;

    const DIMENSIONS: usize = 24;
    const LIMITS: Limits = Limits { links: 6, links_below: 12, ef: 40 };
    /// How many forms of graphs there are.
    pub(in crate::memory) const FORMS: usize = 7;

    pub(in crate::memory) fn vector(rng: &mut Rng) -> Vec<f32> {
        (0..DIMENSIONS).map(|_| rng.below(2001) as f32 / 1000.0 - 0.9995).collect()
    }

    pub(in crate::memory) fn empty(form: usize) -> MemoryGraph {
        let new = |metric| MemoryGraph::new(metric, DIMENSIONS, LIMITS);
        match form {
            0 => new(Metric::Cosine).without_scores().packed(),
            1 => new(Metric::L2),
            2 => new(Metric::L1).without_scores(),
            3 => new(Metric::InnerProduct).with_elements(crate::element::Element::Float16),
            4 => new(Metric::L2).without_vectors(),
            5 => new(Metric::Cosine).without_scores().packed(),
            _ => new(Metric::InnerProduct),
        }
    }

    /// Sets the centre that a graph of this form has.
    pub(in crate::memory) fn set_centre(form: usize, graph: &mut MemoryGraph) {
        if form >= 5 {
            let elements = (0..DIMENSIONS).map(|at| at as f32).collect();
            let centre = Centre::new(graph.metric, graph.element, elements).unwrap();
            graph.set_centre(Arc::new(centre));
        }
    }

    /// A graph of some nodes, some of which were removed.
    pub(in crate::memory) fn sample(form: usize, rng: &mut Rng) -> MemoryGraph {
        let mut graph = match form {
            0 | 5 => MemoryGraph::new(Metric::Cosine, DIMENSIONS, LIMITS),
            _ => empty(form),
        };
        set_centre(form, &mut graph);
        for _ in 0..700 {
            graph.insert(&vector(rng)).unwrap();
        }
        (0..50).for_each(|node| graph.remove(node * 3));
        if matches!(form, 0 | 5) { graph.packed() } else { graph }
    }

    /// Bytes as they are mapped: they begin at a page. Some of them are damaged.
    #[derive(Debug)]
    struct Mapped {
        bytes: Vec<u8>,
        from: usize,
        damaged: Vec<usize>,
        /// How many were looked at.
        asked: Arc<AtomicUsize>,
    }

    impl MappedBytes for Mapped {
        fn bytes(&self) -> &[u8] {
            &self.bytes[self.from..]
        }

        fn is_intact(&self, range: Range<usize>) -> bool {
            self.asked.fetch_add(range.len(), Ordering::Relaxed);
            !self.damaged.iter().any(|at| range.contains(at))
        }
    }

    pub(in crate::memory) fn mapped(bytes: &[u8], damaged: &[usize]) -> (Arc<MappedFile>, Arc<AtomicUsize>) {
        let mut all: Vec<u8> = Vec::with_capacity(bytes.len() + PAGE);
        let from = all.as_ptr().align_offset(PAGE);
        all.resize(from, 0);
        all.extend_from_slice(bytes);
        let asked = Arc::<AtomicUsize>::default();
        let (damaged, counted) = (damaged.to_vec(), Arc::clone(&asked));
        (MappedFile::new(Mapped { bytes: all, from, damaged, asked }), counted)
    }

    /// The graph that bytes are.
    pub(in crate::memory) fn read(empty: MemoryGraph, bytes: &[u8]) -> io::Result<MemoryGraph> {
        let MappedGraph { graph, end, .. } = MemoryGraph::map(empty, &mapped(bytes, &[]).0)?;
        if end == bytes.len() { Ok(graph) } else { Err(invalid()) }
    }

    pub(in crate::memory) fn written(graph: &MemoryGraph) -> Vec<u8> {
        let mut bytes = Vec::new();
        graph.write_to(&mut bytes).unwrap();
        bytes
    }

    pub(in crate::memory) fn find(graph: &MemoryGraph, query: &[f32]) -> Vec<u32> {
        let mut searcher = Searcher::default();
        graph.search_candidates(query, 30, Part::Whole, &mut searcher).unwrap().collect()
    }

    /// Changes a graph as one that is a copy of another is changed.
    pub(in crate::memory) fn change(graph: &mut MemoryGraph, rng: &mut Rng) {
        add_nodes(graph, rng);
        (0..40).filter(|node| node % 3 > 0).for_each(|node| graph.forget(node));
    }

    /// Adds nodes, which others get links to.
    pub(in crate::memory) fn add_nodes(graph: &mut MemoryGraph, rng: &mut Rng) {
        for _ in 0..20 {
            let (node, level) = (graph.add_node(), rng.below(3) as u8);
            graph.set_vector(node, &vector(rng)).unwrap();
            graph.set_level(node, level);
            let links: Vec<Link<u32>> =
                (0..6).map(|_| Link { score: 1.0, node: rng.below(700) as u32 }).collect();
            (0..=level).for_each(|level| graph.set_links(node, level, &links).unwrap());
            let other = 200 + rng.below(500) as u32;
            graph.set_links(other, 0, &links).unwrap();
        }
    }

    #[test]
    fn a_graph_in_a_file_finds_what_the_written_one_finds_and_grows_alike() {
        for form in 0..FORMS {
            let mut rng = Rng::new(form as u64 + 1);
            let mut graph = sample(form, &mut rng);
            let bytes = written(&graph);
            let mut copy = read(empty(form), &bytes).unwrap();
            assert_eq!(copy.len(), graph.len());
            let taken = copy.bytes();
            assert!(taken < graph.bytes() / 2 && copy.mapped_bytes() > graph.bytes() / 2, "{form}: {taken}");
            assert!(copy.check().is_empty());
            assert!(written(&copy) == bytes, "{form}");
            for _ in 0..20 {
                let query = vector(&mut rng);
                assert_eq!(find(&copy, &query), find(&graph, &query));
            }
            if !matches!(form, 1 | 2 | 3 | 6) {
                continue;
            }
            // What changes is in memory from then on; what there was before does not change.
            let (before, old) = (copy.clone(), graph.clone());
            for round in 0..300 {
                let new = vector(&mut rng);
                assert_eq!(copy.insert(&new), graph.insert(&new));
                if round % 3 == 0 {
                    copy.remove(200 + round);
                    graph.remove(200 + round);
                }
            }
            assert!(copy.check().is_empty() && copy.bytes() > taken);
            assert!(
                copy.mapped_bytes() < before.mapped_bytes() && copy.bytes_beside(&before) <= copy.bytes()
            );
            assert!(written(&copy) == written(&graph) && written(&before) == bytes, "{form}");
            let query = vector(&mut rng);
            assert_eq!(find(&copy, &query), find(&graph, &query));
            assert_eq!(find(&before, &query), find(&old, &query));
            assert!(!copy.is_damaged());
        }
    }

    #[test]
    fn to_map_a_graph_reads_what_is_before_the_records_and_a_search_what_it_meets() {
        let mut rng = Rng::new(5);
        let mut graph = empty(2);
        for _ in 0..6000 {
            graph.insert(&vector(&mut rng)).unwrap();
        }
        let bytes = written(&graph);
        let (file, asked) = mapped(&bytes, &[]);
        let graph = MemoryGraph::map(empty(2), &file).unwrap().graph;
        assert_eq!(asked.load(Ordering::Relaxed), HEAD);
        let mut searcher = Searcher::default();
        let query = vector(&mut rng);
        graph.search(&query, 1, 1, &mut searcher).unwrap();
        let once = asked.load(Ordering::Relaxed);
        assert!(once > 10_000 && once < bytes.len() / 2, "{once} of {}", bytes.len());
        graph.search(&query, 1, 1, &mut searcher).unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), once, "checked once");
    }

    #[test]
    fn records_of_whole_lines_begin_at_lines_in_a_file_too() {
        // With factors of 12 bytes.
        const WHOLE: usize = 2 * 64 - 12;
        let mut graph = MemoryGraph::new(Metric::L2, WHOLE, LIMITS);
        for at in 0..300 {
            graph.insert(&vec![at as f32; WHOLE]).unwrap();
        }
        let copy = read(MemoryGraph::new(Metric::L2, WHOLE, LIMITS), &written(&graph)).unwrap();
        for node in 0..300 {
            assert_eq!(copy.codes.record(node).as_ptr() as usize % 64, 0);
            assert_eq!(copy.codes.record(node), graph.codes.record(node));
        }
    }

    #[test]
    fn a_search_that_meets_a_damaged_segment_knows_and_one_that_does_not_finds_what_it_found() {
        for form in 0..FORMS {
            let mut rng = Rng::new(form as u64 + 30);
            let graph = sample(form, &mut rng);
            let bytes = written(&graph);
            let (mut damaged, mut sound) = (0, 0);
            for _ in 0..150 {
                let at = PAGE + rng.below(bytes.len() - PAGE);
                // The graph has a page before its records, or two.
                let Ok(found) = MemoryGraph::map(empty(form), &mapped(&bytes, &[at]).0) else { continue };
                let mut copy = found.graph;
                let query = vector(&mut rng);
                let now = find(&copy, &query);
                match copy.is_damaged() {
                    true => damaged += 1,
                    false => {
                        assert_eq!(now, find(&graph, &query));
                        sound += 1;
                    }
                }
                // Nothing of it is written again, unless it was replaced, and nothing that is done to it ends the process.
                let mut again = Vec::new();
                let is_damaged = copy.write_to(&mut again).is_err();
                assert!(is_damaged || again == bytes && copy.is_damaged() == is_damaged);
                change(&mut copy, &mut rng);
                (0..5).for_each(|_| drop(find(&copy, &vector(&mut rng))));
            }
            assert!(damaged > 20 && sound > 5, "{form}: {damaged} {sound}");
        }
    }

    /// The bytes are in files: change `FORMAT` of `index/vector/saved.rs` in `treedb_collections` if this test has to be changed, so that older
    /// files do not count.
    #[test]
    fn the_bytes_of_a_graph_are_those_that_files_have() {
        let mut found = Vec::new();
        for form in [1, 2, 4, 6] {
            let (mut rng, mut graph) = (Rng::new(11), empty(form));
            set_centre(form, &mut graph);
            for _ in 0..60 {
                // Distances of small integers are the same in any order of additions.
                let vector: Vec<f32> = (0..DIMENSIONS).map(|_| rng.below(15) as f32 - 7.0).collect();
                graph.insert(&vector).unwrap();
            }
            (0..5).for_each(|node| graph.remove(node * 3));
            let bytes = written(&graph);
            // FNV-1a.
            let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
            found.push((form, bytes.len(), hash));
        }
        let expected = [
            (1, 28_672, 6_827_852_677_070_807_994),
            (2, 24_576, 9_829_579_960_592_700_129),
            (4, 24_576, 6_671_816_466_979_348_106),
            (6, 28_672, 12_679_119_696_483_925_511),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn bytes_with_right_checksums_that_are_no_graph_are_refused_or_a_graph_that_can_be_searched() {
        for form in [1, 6] {
            let mut rng = Rng::new(7);
            let graph = sample(form, &mut rng);
            let bytes = written(&graph);
            let section = |bytes: usize| bytes.next_multiple_of(PAGE);
            let segments = |records: usize| 704 * records;
            let centre = if form == 6 { 4 * DIMENSIONS } else { 0 };
            let lists = HEAD + centre..HEAD + centre + 4 * (graph.free.len() + graph.above.free.len());
            let codes = section(lists.end);
            let links = codes + section(segments(graph.codes.records().len()));
            let links = links..links + 700 * 4 * graph.links.len();
            let levels = bytes.len() - section(64 * 4 * graph.above.records.len())..bytes.len();
            let (mut refused, mut told) = (0, 0);
            for round in 0..1500 {
                let mut damaged = bytes.clone();
                let part = match round % 5 {
                    0 => 0..HEAD,
                    1 => lists.clone(),
                    2 => links.clone(),
                    3 => levels.clone(),
                    _ => 0..bytes.len(),
                };
                let at = part.start + rng.below(part.len());
                damaged[at] ^= 1 << rng.below(8);
                let Ok(mut copy) = read(empty(form), &damaged) else {
                    refused += 1;
                    continue;
                };
                let found = find(&copy, &vector(&mut rng));
                assert!(found.iter().all(|node| (*node as usize) < 700));
                for node in 0..700 {
                    copy.links(node, 0, &mut Vec::new()).unwrap();
                }
                told += usize::from(copy.is_damaged());
                // Whatever it is, it can be changed, and every change ends.
                change(&mut copy, &mut rng);
            }
            assert!(refused > 150 && told > 150, "{refused} {told}");
            for len in (0..bytes.len()).step_by(997) {
                assert!(read(empty(form), &bytes[..len]).is_err());
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert!(read(empty(form), &longer).is_err());
        }
    }
}
