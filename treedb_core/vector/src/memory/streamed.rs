//! Writing a graph as bytes of a file without having it in memory.
//!
//! Its nodes are told one after another, once for each kind of records, in the order that the kinds have in a file (see [`super::bytes`]): all
//! codes, then all links of level 0, all vectors, and at last all links above. What is in memory is one segment of the records that are being written, and one node.
//! The bytes are those that [`MemoryGraph::write_to`] would write of a graph whose nodes were added in this order, and have no scores of links.

use std::io::{self, Write};

use super::mapped::invalid;
use super::nodes::MOST_CHAINS;
use super::records::{Records, SegmentWriter};
use super::segment::Number;
use super::vectors::Vectors;
use super::{MemoryGraph, bytes};
use crate::code::Coded;
use crate::graph::{Link, NodesMut};

/// What is known of a graph before its nodes are told.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many levels above level 0 all of them have, together.
    pub levels: usize,
    /// The node where searches begin, and its level.
    pub entry: Option<(u32, u8)>,
}

/// Writes records one after another, as [`Records::write_to`] does.
#[derive(Debug)]
pub struct RecordsWriter<T> {
    /// The segment that is being filled, and how many of its elements are.
    segment: Vec<T>,
    filled: usize,
    /// Elements of a record.
    len: usize,
    count: usize,
    segments: SegmentWriter,
}

impl<T: Number> RecordsWriter<T> {
    /// One of records like these.
    pub fn new(records: &Records<T>) -> RecordsWriter<T> {
        let (len, shift, _) = records.shape();
        let segment = vec![T::default(); len << shift];
        RecordsWriter { segment, filled: 0, len, count: 0, segments: SegmentWriter::default() }
    }

    /// The next record, of zeros, to be filled.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn next(&mut self, out: &mut impl Write) -> io::Result<&mut [T]> {
        if self.filled == self.segment.len() {
            self.write_segment(out)?;
        }
        let at = self.filled;
        self.filled += self.len;
        self.count += 1;
        Ok(self.segment.get_mut(at..self.filled).unwrap_or(&mut []))
    }

    fn write_segment(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.segments.write(&self.segment, out)?;
        self.segment.fill(T::default());
        self.filled = 0;
        Ok(())
    }

    /// Writes what is left, and zeros up to the next multiple of 4,096 bytes.
    ///
    /// # Errors
    /// Those of `out`; `InvalidData` if there were not so many records.
    pub fn finish(mut self, count: usize, out: &mut impl Write) -> io::Result<()> {
        if self.count != count {
            return Err(invalid());
        }
        if self.filled > 0 {
            self.write_segment(out)?;
        }
        self.segments.finish(out)
    }
}

/// Writes vectors, as they are stored.
#[derive(Debug)]
enum VectorsWriter {
    Numbers(RecordsWriter<f32>),
    Halves(RecordsWriter<u16>),
    Bytes(RecordsWriter<u8>),
}

impl VectorsWriter {
    fn new(vectors: &Vectors) -> VectorsWriter {
        match vectors {
            Vectors::Floats(records) | Vectors::Coded(records) => {
                VectorsWriter::Numbers(RecordsWriter::new(records))
            }
            Vectors::Halves(records, _) => VectorsWriter::Halves(RecordsWriter::new(records)),
            Vectors::Packed(records) => VectorsWriter::Bytes(RecordsWriter::new(records)),
        }
    }

    /// Writes the first of `vectors`.
    fn write(&mut self, vectors: &Vectors, out: &mut impl Write) -> io::Result<()> {
        match (self, vectors) {
            (VectorsWriter::Numbers(writer), Vectors::Floats(records) | Vectors::Coded(records)) => {
                writer.next(out)?.copy_from_slice(records.get(0));
            }
            (VectorsWriter::Halves(writer), Vectors::Halves(records, _)) => {
                writer.next(out)?.copy_from_slice(records.get(0));
            }
            (VectorsWriter::Bytes(writer), Vectors::Packed(records)) => {
                writer.next(out)?.copy_from_slice(records.get(0));
            }
            _ => return Err(invalid()),
        }
        Ok(())
    }

    fn finish(self, count: usize, out: &mut impl Write) -> io::Result<()> {
        match self {
            VectorsWriter::Numbers(writer) => writer.finish(count, out),
            VectorsWriter::Halves(writer) => writer.finish(count, out),
            VectorsWriter::Bytes(writer) => writer.finish(count, out),
        }
    }
}

/// The records that are being written.
#[derive(Debug)]
enum Part {
    Codes(RecordsWriter<u8>),
    /// And the number of the last level above level 0.
    Links(RecordsWriter<u32>, u32),
    Vectors(VectorsWriter),
    Levels(RecordsWriter<u32>),
}

/// Writes a graph of which each node is told when it is its turn: see the module. What is told out of turn is an error, and so is a number of nodes or
/// levels that is not that of the [`Shape`].
#[derive(Debug)]
pub struct GraphWriter<'o, W> {
    /// A graph like the one that is written, with one node.
    node: MemoryGraph,
    shape: Shape,
    part: Part,
    out: &'o mut W,
}

impl<'o, W: Write> GraphWriter<'o, W> {
    /// Begins with a graph that is made as `empty` was, which keeps no scores of links.
    ///
    /// # Errors
    /// Those of `out`; `InvalidInput` if it would have scores, or more nodes or levels than can be numbered.
    pub fn new(empty: MemoryGraph, shape: Shape, out: &'o mut W) -> io::Result<GraphWriter<'o, W>> {
        let fits = shape.nodes < u32::MAX as usize && shape.levels < MOST_CHAINS - 1;
        if empty.scores.is_some() || !empty.is_empty() || !fits {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut node = empty;
        bytes::write_head_of(&node, shape, out)?;
        node.add_node();
        let part = Part::Codes(RecordsWriter::new(node.codes.records()));
        Ok(GraphWriter { node, shape, part, out })
    }

    /// The code of the next node, from its vector.
    ///
    /// # Errors
    /// Those of `out`; `InvalidData` if it is no vector of the graph.
    pub fn code_of(&mut self, vector: &[f32]) -> io::Result<()> {
        self.node.set_vector(0, vector).map_err(|_| invalid())?;
        self.write_code()
    }

    /// The code of the next node: one that the graph would make of its vector.
    ///
    /// # Errors
    /// Those of `out`; `InvalidData` if it is no code of the graph.
    pub fn code(&mut self, coded: Coded<'_>) -> io::Result<()> {
        let mut fits = false;
        self.node.codes.set(0, |code| {
            fits = code.len() == coded.codes.len();
            code.iter_mut().zip(coded.codes).for_each(|(to, from)| *to = *from);
            (coded.factors, coded.factors)
        });
        if fits { self.write_code() } else { Err(invalid()) }
    }

    fn write_code(&mut self) -> io::Result<()> {
        let Part::Codes(writer) = &mut self.part else { return Err(invalid()) };
        writer.next(self.out)?.copy_from_slice(self.node.codes.record(0));
        Ok(())
    }

    /// Ends a part, and begins the next one.
    fn end_part(&mut self, next: Part) -> io::Result<()> {
        let nodes = self.shape.nodes;
        match std::mem::replace(&mut self.part, next) {
            Part::Codes(writer) => writer.finish(nodes, self.out),
            Part::Links(writer, level) if level as usize == self.shape.levels => {
                writer.finish(nodes, self.out)
            }
            Part::Vectors(writer) => writer.finish(nodes, self.out),
            Part::Links(..) | Part::Levels(_) => Err(invalid()),
        }
    }

    /// The links of the next node in level 0, and how many levels it has above that.
    ///
    /// # Errors
    /// Those of `out`; `InvalidData` if a link is to no node.
    pub fn links(&mut self, links: &[u32], levels: u8) -> io::Result<()> {
        if matches!(self.part, Part::Codes(_)) {
            self.end_part(Part::Links(RecordsWriter::new(&self.node.links), 0))?;
        }
        self.check_links(links, self.node.links.len() - 1)?;
        let Part::Links(writer, level) = &mut self.part else { return Err(invalid()) };
        let links: Vec<Link<u32>> = links.iter().map(|node| Link { score: 0.0, node: *node }).collect();
        self.node.links.get_mut(0).fill(0);
        let Ok(()) = self.node.set_links(0, 0, &links);
        *level += u32::from(levels);
        if levels > 0 {
            // A chain begins with the level that was made last: see `Above::chain`.
            self.node.set_chain(0, *level);
        }
        writer.next(self.out)?.copy_from_slice(self.node.links.get(0));
        Ok(())
    }

    fn check_links(&self, links: &[u32], most: usize) -> io::Result<()> {
        let sound = links.len() <= most && links.iter().all(|node| (*node as usize) < self.shape.nodes);
        if sound { Ok(()) } else { Err(invalid()) }
    }

    /// The vector of the next node, which has this code, if it is known.
    ///
    /// # Errors
    /// Those of `out`; `InvalidData` if it is no vector of the graph, or one that has another code.
    pub fn vector(&mut self, vector: &[f32], coded: Option<Coded<'_>>) -> io::Result<()> {
        if matches!(self.part, Part::Links(..)) {
            self.end_part(Part::Vectors(VectorsWriter::new(&self.node.vectors)))?;
        }
        self.node.set_vector(0, vector).map_err(|_| invalid())?;
        if coded.is_some_and(|coded| self.node.codes.get(0).codes != coded.codes) {
            return Err(invalid());
        }
        let Part::Vectors(writer) = &mut self.part else { return Err(invalid()) };
        writer.write(&self.node.vectors, self.out)
    }

    /// The links of the next node that has levels above level 0, in each of them, from level 1 on.
    ///
    /// # Errors
    /// Those of `out`; `InvalidData` if a link is to no node.
    pub fn levels(&mut self, levels: &[Vec<u32>]) -> io::Result<()> {
        self.begin_levels()?;
        let Part::Levels(_) = &self.part else { return Err(invalid()) };
        let most = self.node.above.records.len().saturating_sub(2);
        for (at, links) in levels.iter().rev().enumerate() {
            self.check_links(links, most)?;
            let Part::Levels(writer) = &mut self.part else { return Err(invalid()) };
            // Each leads to the one that was made before it, the highest to none.
            let next = if at == 0 { 0 } else { writer.count as u32 - 1 };
            if let [count, after, places @ ..] = writer.next(self.out)? {
                (*count, *after) = (links.len() as u32, next);
                places.iter_mut().zip(links).for_each(|(place, link)| *place = *link);
            }
        }
        Ok(())
    }

    fn begin_levels(&mut self) -> io::Result<()> {
        if matches!(self.part, Part::Vectors(_)) {
            let mut writer = RecordsWriter::new(&self.node.above.records);
            // Number 0 says that there is none.
            writer.next(self.out)?;
            self.end_part(Part::Levels(writer))?;
        }
        Ok(())
    }

    /// Ends the graph.
    ///
    /// # Errors
    /// Those of `out`; `InvalidData` if not all of its nodes and levels were told.
    pub fn finish(mut self) -> io::Result<()> {
        self.begin_levels()?;
        match self.part {
            Part::Levels(writer) => writer.finish(1 + self.shape.levels, self.out),
            _ => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;
    use crate::graph::Nodes;
    use crate::memory::bytes::tests::{FORMS, empty, sample, vector, written};

    /// The nodes of a graph that is written.
    struct Told {
        vectors: Vec<Vec<f32>>,
        links: Vec<Vec<Vec<u32>>>,
        entry: Option<(u32, u8)>,
    }

    impl Told {
        fn new(form: usize, rng: &mut Rng) -> Told {
            let graph = sample(form, rng);
            let nodes: Vec<u32> = (0..700).filter(|node| !graph.free_nodes().contains(node)).collect();
            let place = |node: &u32| nodes.binary_search(node).unwrap() as u32;
            let links = |node: &u32| {
                let Ok(top) = graph.level(*node);
                let of = |level| {
                    let mut links = Vec::new();
                    let Ok(()) = Nodes::links(&graph, *node, level, &mut links);
                    links.iter().map(place).collect()
                };
                (0..=top).map(of).collect()
            };
            let Ok(entry) = graph.entry();
            Told {
                vectors: nodes.iter().map(|_| vector(rng)).collect(),
                links: nodes.iter().map(links).collect(),
                entry: entry.map(|(node, level)| (place(&node), level)),
            }
        }

        /// The same in memory.
        fn graph(&self, empty: MemoryGraph) -> MemoryGraph {
            let mut graph = empty;
            for _ in &self.vectors {
                graph.add_node();
            }
            for (node, (vector, levels)) in (0..).zip(self.vectors.iter().zip(&self.links)) {
                graph.set_vector(node, vector).unwrap();
                graph.set_level(node, levels.len() as u8 - 1);
                for (level, links) in (0..).zip(levels) {
                    let links: Vec<_> = links.iter().map(|node| Link { score: 0.0, node: *node }).collect();
                    graph.set_links(node, level, &links).unwrap();
                }
            }
            graph.set_entry(self.entry).unwrap();
            graph
        }

        fn shape(&self) -> Shape {
            let levels = self.links.iter().map(|levels| levels.len() - 1).sum();
            Shape { nodes: self.vectors.len(), levels, entry: self.entry }
        }
    }

    fn unscored(form: usize) -> MemoryGraph {
        let mut graph = empty(form).without_scores();
        crate::memory::bytes::tests::set_centre(form, &mut graph);
        graph
    }

    fn streamed(told: &Told, form: usize, by_codes: bool) -> io::Result<Vec<u8>> {
        let (whole, mut out) = (told.graph(unscored(form)), Vec::new());
        let mut writer = GraphWriter::new(unscored(form), told.shape(), &mut out)?;
        for (node, vector) in (0..).zip(&told.vectors) {
            if by_codes { writer.code(whole.coded(node))? } else { writer.code_of(vector)? }
        }
        for levels in &told.links {
            writer.links(&levels[0], levels.len() as u8 - 1)?;
        }
        for (node, vector) in (0..).zip(&told.vectors) {
            writer.vector(vector, by_codes.then(|| whole.coded(node)))?;
        }
        for levels in told.links.iter().filter(|levels| levels.len() > 1) {
            writer.levels(&levels[1..])?;
        }
        writer.finish()?;
        Ok(out)
    }

    #[test]
    fn a_graph_that_is_told_node_by_node_has_the_bytes_of_the_one_in_memory() {
        for form in 0..FORMS {
            let told = Told::new(form, &mut Rng::new(form as u64 + 20));
            let expected = written(&told.graph(unscored(form)));
            assert!(told.shape().levels > 20);
            assert!(streamed(&told, form, false).unwrap() == expected, "{form}");
            assert!(streamed(&told, form, true).unwrap() == expected, "{form} by codes");
        }
    }

    #[test]
    fn a_graph_of_which_not_all_is_told_or_something_else_is_refused() {
        let told = Told::new(2, &mut Rng::new(3));
        let shape = told.shape();
        fn begin(shape: Shape, out: &mut Vec<u8>) -> GraphWriter<'_, Vec<u8>> {
            GraphWriter::new(unscored(2), shape, out).unwrap()
        }
        let codes = |writer: &mut GraphWriter<'_, Vec<u8>>, count: usize| {
            told.vectors.iter().take(count).for_each(|vector| writer.code_of(vector).unwrap());
        };
        let mut out = Vec::new();
        let mut writer = begin(shape, &mut out);
        codes(&mut writer, shape.nodes - 1);
        assert!(writer.links(&[1], 0).is_err(), "a code is missing");
        let mut writer = begin(shape, &mut out);
        codes(&mut writer, shape.nodes);
        assert!(writer.links(&[shape.nodes as u32], 0).is_err(), "no such node");
        assert!(writer.links(&[1; 13], 0).is_err(), "more links than a node may have");
        assert!(writer.code_of(&told.vectors[0]).is_err(), "out of turn");
        assert!(writer.levels(&[vec![1]]).is_err() && writer.finish().is_err(), "out of turn");
        assert!(begin(shape, &mut out).vector(&told.vectors[0], None).is_err(), "out of turn");
        let mut other = told.links.clone();
        other.iter_mut().for_each(|levels| levels.truncate(1));
        let fewer = Told { vectors: told.vectors.clone(), links: other, entry: told.entry };
        let mut writer = begin(shape, &mut out);
        codes(&mut writer, shape.nodes);
        fewer.links.iter().for_each(|levels| writer.links(&levels[0], 0).unwrap());
        assert!(writer.vector(&told.vectors[0], None).is_err(), "levels are missing");
        assert!(GraphWriter::new(empty(1), shape, &mut out).is_err(), "scores");
    }
}
