//! A graph as bytes, to be kept in a file and read again, a part at a time.
//!
//! | bytes | what |
//! |---|---|
//! | 40 | the head: numbers of nodes, of levels above level 0 and number 0, of free nodes and of free levels; the node where searches begin and its level; the root; 4 bytes each, of which all bits are set if there is none; 8 bytes that the levels of new nodes are drawn from; the number of elements of the centre, 4 bytes: 0 if there is none |
//! | 4 each | the elements of the centre |
//! | | codes with their factors, links, scores of links if the graph has them, vectors, of all nodes; levels above level 0 |
//! | 4 each | free nodes, free levels |
//!
//! Numbers are little-endian. What records there are and how long they are is not among the bytes: who reads them has an empty graph
//! that is alike. Whatever the bytes are, a graph that was read has links to nodes that there are, and levels that end.

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::records::Records;
use super::vectors::Vectors;
use super::{MemoryGraph, nodes};
use crate::centre::Centre;

/// Bytes of the head.
const HEAD: usize = 40;
/// A node that there is not.
const NONE: u32 = u32::MAX;

/// What records consist of.
pub trait Number: Copy + Default {
    /// Adds the bytes of numbers to `out`.
    fn write(numbers: &[Self], out: &mut Vec<u8>);
    /// Sets numbers to those of as many bytes.
    fn read(bytes: &[u8], numbers: &mut [Self]);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn write(numbers: &[$number], out: &mut Vec<u8>) {
                numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            }

            fn read(bytes: &[u8], numbers: &mut [$number]) {
                let all = bytes.as_chunks::<{ size_of::<$number>() }>().0;
                numbers.iter_mut().zip(all).for_each(|(to, from)| *to = <$number>::from_le_bytes(*from));
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, f32);

/// The error of bytes that are no graph.
fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl<T: Number> Records<T> {
    /// Writes the records, one after another.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = Vec::new();
        for segment in self.segments() {
            bytes.clear();
            T::write(segment, &mut bytes);
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Adds records that were written, until there are `count`, or about `most` bytes were read, which is how many are left of them then.
    /// True if there are `count`. To begin with there are none.
    ///
    /// # Errors
    /// Those of `input`. The last records are of no use then.
    pub fn read_some(&mut self, input: &mut impl Read, count: usize, most: &mut usize) -> io::Result<bool> {
        let mut bytes = Vec::new();
        while self.count() < count {
            if *most == 0 {
                return Ok(false);
            }
            let numbers = self.push_segment(count - self.count());
            bytes.resize(size_of_val(numbers), 0);
            input.read_exact(&mut bytes)?;
            T::read(&bytes, numbers);
            *most = most.saturating_sub(bytes.len().max(1));
        }
        Ok(true)
    }
}

impl Vectors {
    fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => records.write_to(out),
            Vectors::Halves(records, _) => records.write_to(out),
            Vectors::Packed(records) => records.write_to(out),
        }
    }

    fn read_some(&mut self, input: &mut impl Read, count: usize, most: &mut usize) -> io::Result<bool> {
        match self {
            Vectors::Floats(records) | Vectors::Coded(records) => records.read_some(input, count, most),
            Vectors::Halves(records, _) => records.read_some(input, count, most),
            Vectors::Packed(records) => records.read_some(input, count, most),
        }
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

impl MemoryGraph {
    /// Writes the graph: see [`GraphReader`].
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut head = Head::of(self).encode();
        f32::write(self.centre().map_or(&[], |centre| centre.elements()), &mut head);
        out.write_all(&head)?;
        self.codes.records().write_to(out)?;
        self.links.write_to(out)?;
        if let Some(scores) = &self.scores {
            scores.write_to(out)?;
        }
        self.vectors.write_to(out)?;
        self.above.records.write_to(out)?;
        let mut bytes = Vec::new();
        u32::write(&self.free, &mut bytes);
        u32::write(&self.above.free, &mut bytes);
        out.write_all(&bytes)
    }

    /// The nodes that were removed, in any order.
    pub fn free_nodes(&self) -> &[u32] {
        &self.free
    }

    /// Whether all links are to nodes that there are, all levels end, and nothing is used twice.
    fn is_sound(&self) -> bool {
        let mut is_free = vec![false; self.codes.records().count()];
        let mut levels_met = vec![false; self.above.count()];
        let meet = |all: &mut Vec<bool>, number: u32| {
            all.get_mut(number as usize).is_some_and(|met| !std::mem::replace(met, true))
        };
        if !self.free.iter().all(|node| meet(&mut is_free, *node)) {
            return false;
        }
        let there_is = |node: &u32| is_free.get(*node as usize) == Some(&false);
        // Number 0 says that there is none, and has no links.
        let no_level = matches!(self.above.records.get(0), [0, 0, ..]) && meet(&mut levels_met, 0);
        if !no_level || !self.above.free.iter().all(|number| meet(&mut levels_met, *number)) {
            return false;
        }
        for (node, is_free) in (0..).zip(&is_free) {
            let [numbers, places @ ..] = self.links.get(node) else { return false };
            let Some(links) = places.get(..(numbers & 0xff) as usize) else { return false };
            let mut level = numbers >> 8;
            if !links.iter().all(there_is) || *is_free && (level != 0 || !links.is_empty()) {
                return false;
            }
            while level != 0 {
                let [count, next, places @ ..] = self.above.records.get(level) else { return false };
                let Some(links) = places.get(..*count as usize) else { return false };
                if !meet(&mut levels_met, level) || !links.iter().all(there_is) {
                    return false;
                }
                level = *next;
            }
        }
        self.entry.iter().all(|(node, _)| there_is(node)) && self.root.iter().all(there_is)
    }
}

/// The next bytes as a centre of so many elements.
fn read_centre(graph: &MemoryGraph, count: usize, input: &mut impl Read) -> io::Result<Centre> {
    if count != graph.dimensions {
        return Err(invalid());
    }
    let (mut bytes, mut elements) = (vec![0; count * size_of::<f32>()], vec![0.0; count]);
    input.read_exact(&mut bytes)?;
    f32::read(&bytes, &mut elements);
    Centre::new(graph.metric, graph.element, elements).ok_or_else(invalid)
}

/// Reads a graph that [`MemoryGraph::write_to`] has written.
#[derive(Debug)]
pub struct GraphReader {
    graph: MemoryGraph,
    head: Head,
}

impl GraphReader {
    /// Begins to read a graph; `empty` is one that was made as it was.
    ///
    /// # Errors
    /// Those of `input`; `InvalidData` if it is no graph.
    pub fn begin(empty: MemoryGraph, input: &mut impl Read) -> io::Result<GraphReader> {
        let mut head = [0; HEAD];
        input.read_exact(&mut head)?;
        let head = Head::decode(&head).ok_or_else(invalid)?;
        let mut graph = empty;
        if head.centre != 0 {
            let centre = read_centre(&graph, head.centre, input)?;
            graph.set_centre(Arc::new(centre));
            graph.centre().ok_or_else(invalid)?;
        }
        graph.above.records = Records::new(graph.above.records.len());
        Ok(GraphReader { graph, head })
    }

    /// How many nodes it has, with free ones.
    pub fn nodes(&self) -> usize {
        self.head.nodes
    }

    /// Bytes of what was read so far.
    pub fn bytes(&self) -> usize {
        self.graph.bytes()
    }

    /// Reads about `most` bytes more of it, which is how many are left of them then; true once there are no more, so that it can be
    /// [finished](GraphReader::finish).
    ///
    /// # Errors
    /// Those of `input`.
    pub fn read_some(&mut self, input: &mut impl Read, most: &mut usize) -> io::Result<bool> {
        let GraphReader { graph, head: Head { nodes, levels, .. } } = self;
        let scores = graph.scores.as_mut();
        Ok(graph.codes.records_mut().read_some(input, *nodes, most)?
            && graph.links.read_some(input, *nodes, most)?
            && scores.map_or(Ok(true), |scores| scores.read_some(input, *nodes, most))?
            && graph.vectors.read_some(input, *nodes, most)?
            && graph.above.records.read_some(input, *levels, most)?)
    }

    /// The graph, once all was read.
    ///
    /// # Errors
    /// Those of `input`; `InvalidData` if it is no graph.
    pub fn finish(self, input: &mut impl Read) -> io::Result<MemoryGraph> {
        let GraphReader { mut graph, head } = self;
        if graph.codes.records().count() != head.nodes || graph.above.count() != head.levels {
            return Err(invalid());
        }
        let mut bytes = vec![0; size_of::<u32>() * (head.free + head.free_levels)];
        input.read_exact(&mut bytes)?;
        let (free, free_levels) = bytes.split_at_checked(size_of::<u32>() * head.free).ok_or_else(invalid)?;
        graph.free = vec![0; head.free];
        u32::read(free, &mut graph.free);
        graph.above.free = vec![0; head.free_levels];
        u32::read(free_levels, &mut graph.above.free);
        (graph.entry, graph.root, graph.random) = (head.entry, head.root, head.random);
        graph.is_sound().then_some(graph).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;
    use crate::graph::{Limits, Part};
    use crate::memory::Searcher;
    use crate::metric::Metric;

    const DIMENSIONS: usize = 24;
    const LIMITS: Limits = Limits { links: 6, links_below: 12, ef: 40 };

    fn vector(rng: &mut Rng) -> Vec<f32> {
        (0..DIMENSIONS).map(|_| rng.below(2001) as f32 / 1000.0 - 0.9995).collect()
    }

    fn empty(form: usize) -> MemoryGraph {
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
    fn set_centre(form: usize, graph: &mut MemoryGraph) {
        if form >= 5 {
            let elements = (0..DIMENSIONS).map(|at| at as f32).collect();
            let centre = Centre::new(graph.metric, graph.element, elements).unwrap();
            graph.set_centre(Arc::new(centre));
        }
    }

    /// A graph of some nodes, some of which were removed.
    fn sample(form: usize, rng: &mut Rng) -> MemoryGraph {
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

    fn read(empty: MemoryGraph, mut bytes: &[u8], step: usize) -> io::Result<MemoryGraph> {
        let mut reader = GraphReader::begin(empty, &mut bytes)?;
        let mut most = step;
        while !reader.read_some(&mut bytes, &mut most)? {
            assert_eq!(most, 0);
            most = step;
        }
        let graph = reader.finish(&mut bytes)?;
        assert!(bytes.is_empty());
        Ok(graph)
    }

    #[test]
    fn a_graph_that_was_read_finds_what_the_written_one_finds_and_grows_alike() {
        for form in 0..7 {
            let mut rng = Rng::new(form as u64 + 1);
            let graph = sample(form, &mut rng);
            let mut bytes = Vec::new();
            graph.write_to(&mut bytes).unwrap();
            for step in [1, 5000, usize::MAX] {
                let mut copy = read(empty(form), &bytes, step).unwrap();
                assert_eq!((copy.len(), copy.bytes_of(700)), (graph.len(), graph.bytes_of(700)));
                assert!(copy.check().is_empty());
                let mut again = Vec::new();
                copy.write_to(&mut again).unwrap();
                assert!(again == bytes, "{form}");
                let (mut one, mut other) = (Searcher::default(), Searcher::default());
                for _ in 0..20 {
                    let query = vector(&mut rng);
                    let found: Vec<u32> =
                        graph.search_candidates(&query, 30, Part::Whole, &mut one).unwrap().collect();
                    let same = copy.search_candidates(&query, 30, Part::Whole, &mut other).unwrap();
                    assert_eq!(same.collect::<Vec<u32>>(), found);
                }
                if matches!(form, 1 | 6) {
                    let new = vector(&mut rng);
                    assert_eq!(copy.insert(&new), graph.clone().insert(&new));
                }
            }
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
            let mut bytes = Vec::new();
            graph.write_to(&mut bytes).unwrap();
            // FNV-1a.
            let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
            found.push((form, bytes.len(), hash));
        }
        let expected = [
            (1, 14_636, 6_171_997_106_376_253_530),
            (2, 11_516, 2_769_576_431_676_775_921),
            (4, 8_876, 460_319_951_235_369_386),
            (6, 14_732, 2_142_985_326_070_558_999),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn damaged_bytes_are_refused_or_are_a_graph_that_can_be_searched() {
        damage(1, 0);
        damage(6, 4 * DIMENSIONS);
    }

    /// Damages the bytes of a graph of this form, whose centre takes so many.
    fn damage(form: usize, centre: usize) {
        let mut rng = Rng::new(7);
        let graph = sample(form, &mut rng);
        let mut bytes = Vec::new();
        graph.write_to(&mut bytes).unwrap();
        let codes = HEAD + centre + 700 * (DIMENSIONS + 12);
        let links = codes..codes + 700 * 4 * 13;
        let levels = bytes.len() - 4000;
        let mut refused = 0;
        for round in 0..1500 {
            let mut damaged = bytes.clone();
            let at = match round % 4 {
                0 if round % 8 == 0 => HEAD - 4 + rng.below(4 + centre),
                0 => rng.below(HEAD - 12),
                1 => links.start + rng.below(links.len()),
                2 => levels + rng.below(damaged.len() - levels),
                _ => rng.below(damaged.len()),
            };
            damaged[at] ^= 1 << rng.below(8);
            let Ok(copy) = read_any(empty(form), &damaged) else {
                refused += 1;
                continue;
            };
            let query = vector(&mut rng);
            let mut searcher = Searcher::default();
            let found = copy.search_candidates(&query, 20, Part::Whole, &mut searcher).unwrap();
            assert!(found.collect::<Vec<u32>>().iter().all(|node| (*node as usize) < 700));
        }
        assert!(refused > 300, "{refused}");
        for len in (0..bytes.len()).step_by(997) {
            assert!(read_any(empty(form), &bytes[..len]).is_err());
        }
    }

    /// As [`read`], of bytes after which there may be others.
    fn read_any(empty: MemoryGraph, mut bytes: &[u8]) -> io::Result<MemoryGraph> {
        let mut reader = GraphReader::begin(empty, &mut bytes)?;
        while !reader.read_some(&mut bytes, &mut 10_000)? {}
        reader.finish(&mut bytes)
    }
}
