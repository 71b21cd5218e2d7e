//! The image of an index as bytes of its file, straight from the index's table: for an image that there is no room for in memory.
//!
//! Nodes are numbered in the order of the table, which is read once for each kind of records; documents are read where vectors are not in the table.
//! What is in memory are the numbers of the nodes ([`Ranks`]), a bit each where rows follow one another, and some records. The file is the one that
//! an image of the same state would be saved as, but for the order of the nodes.

use std::io::{self, Write};
use std::sync::Arc;

use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::vector::{VectorDef, Vectors};
use treedb_storage::{Reads, Table};
use treedb_vector::centre::Centre;
use treedb_vector::memory::{GraphWriter, MemoryGraph, Records, RecordsWriter, Shape};

use super::follow::document_vectors;
use super::graph::{StoredGraph, empty_image};
use super::record::{
    CENTRE, HEAD, centre_in, coded, damaged, for_each_link, level_of, node_of_vector_row, nodes_in,
    position_of, row_of, vector_in,
};
use crate::read::view::View;

/// Nodes after which it is asked whether to go on.
const ASKED: usize = 256;
/// Vectors of a row on average, at most, where they are read from documents: a document is read again for each of them.
const MOST_VECTORS: u64 = 8;

/// The numbers of nodes, ascending, and how many are before each.
#[derive(Debug, Default)]
struct Ranks {
    /// Numbers divided by 64; a bit for each of the 64; how many are before them.
    words: Vec<(u64, u64, u32)>,
    count: usize,
}

impl Ranks {
    /// Adds a number that is greater than all before; false if it is not, or there are too many.
    fn push(&mut self, number: u64) -> bool {
        let (word, bit) = (number / 64, 1 << (number % 64));
        let count = self.count as u32;
        match self.words.last_mut() {
            Some((last, ..)) if *last > word => return false,
            Some((last, bits, _)) if *last == word => {
                if *bits >= bit {
                    return false;
                }
                *bits |= bit;
            }
            _ => self.words.push((word, bit, count)),
        }
        self.count += 1;
        self.count < u32::MAX as usize
    }

    /// How many numbers are before this one; `None` if it is not among them.
    fn rank(&self, number: u64) -> Option<u32> {
        let at = self.words.binary_search_by_key(&(number / 64), |(word, ..)| *word).ok()?;
        let (_, bits, before) = self.words.get(at)?;
        let bit = 1 << (number % 64);
        (bits & bit != 0).then(|| before + (bits & (bit - 1)).count_ones())
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.words.iter().flat_map(|(word, bits, _)| {
            (0..64).filter(move |at| bits >> at & 1 == 1).map(move |at| word * 64 + at)
        })
    }

    fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<(u64, u64, u32)>()
    }
}

/// What the writing asks now and then: whether it may take so many bytes of memory, and go on.
pub(super) type May<'m> = &'m mut dyn FnMut(u64) -> bool;

/// An image that is not in memory.
pub(super) struct StreamedImage<'s, R> {
    def: &'s VectorDef,
    view: &'s View<'s, R>,
    table: &'s Table,
    centre: Option<Arc<Centre>>,
    ranks: Ranks,
    shape: Shape,
    /// How many positions vectors may have in documents.
    positions: u64,
}

/// The error of a write that was not to go on.
pub(super) fn interrupted() -> QueryError {
    QueryError::new(ErrorCode::Interrupted, "the writing of a vector index's image was to end")
}

/// Whether the image of an index is worth reading documents for, which it may need again and again.
pub(super) fn can_stream(def: &VectorDef, view: &View<'_, impl Reads>, nodes: u64) -> Result<bool> {
    let needs_documents = vector_in(def, None, &[]).is_none();
    Ok(!needs_documents || nodes <= view.reads.len(&view.meta.rows)?.saturating_mul(MOST_VECTORS))
}

impl<'s, R: Reads> StreamedImage<'s, R> {
    /// That of what `view` sees: reads which nodes there are.
    pub(super) fn new(
        def: &'s VectorDef,
        view: &'s View<'s, R>,
        table: &'s Table,
        may: May<'_>,
    ) -> Result<StreamedImage<'s, R>> {
        let (centre, rows_end) = (centre_in(def, view.reads, table)?, view.reads.next_row(&view.meta.rows)?);
        let shape = Shape { nodes: 0, levels: 0, entry: None };
        let mut image =
            StreamedImage { def, view, table, centre, ranks: Ranks::default(), shape, positions: 0 };
        let broken = || damaged(def, "the graph");
        let (mut levels, mut of_links) = (0, 0_u64);
        // The links of a node are before its vector.
        image.for_each_row(|image, row, record| {
            let Some(number) = node_of_vector_row(row) else {
                (of_links, levels) = (row / 2, levels + usize::from(level_of(record).ok_or_else(broken)?));
                return Ok(());
            };
            // As an image has it: the memory of rows is proportional to the greatest.
            let sound = row_of(number) < rows_end && position_of(number) < Vectors::MOST as u64;
            if !sound || number != of_links || !image.ranks.push(number) {
                return Err(broken());
            }
            image.positions = image.positions.max(position_of(number) + 1);
            if image.ranks.count.is_multiple_of(ASKED) && !may(image.bytes()) {
                return Err(interrupted());
            }
            Ok(())
        })?;
        let entry = match StoredGraph::new(def, view.reads, table)?.head()?.entry {
            Some((number, level)) => Some((image.ranks.rank(number).ok_or_else(broken)?, level)),
            None => None,
        };
        image.shape = Shape { nodes: image.ranks.count, levels, entry };
        if nodes_in(view.reads.len(table)?) != image.ranks.count as u64 {
            return Err(broken());
        }
        if may(image.bytes()) { Ok(image) } else { Err(interrupted()) }
    }

    /// Calls `visit` with the rows of nodes.
    fn for_each_row(&mut self, mut visit: impl FnMut(&mut Self, u64, &[u8]) -> Result<()>) -> Result<()> {
        let (view, table) = (self.view, self.table);
        let mut rows = view.reads.rows(table, 0)?;
        while let Some((row, record)) = rows.lend_next()? {
            if row != HEAD && row != CENTRE {
                visit(self, row, record)?;
            }
        }
        Ok(())
    }

    /// Bytes that it takes in memory, beside some records and documents.
    fn bytes(&self) -> u64 {
        self.ranks.bytes() as u64
    }

    /// A graph like the one that is written.
    fn empty(&self) -> MemoryGraph {
        let mut graph = empty_image(self.def);
        self.centre.iter().for_each(|centre| graph.set_centre(Arc::clone(centre)));
        graph
    }

    /// Bytes of the file, about.
    pub(super) fn file_bytes(&self) -> u64 {
        let graph = self.empty();
        let records = graph.bytes_of(self.shape.nodes) - graph.bytes_of_mapped(self.shape.nodes);
        (records + size_of::<u64>() * self.shape.nodes) as u64
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of the disk, of reading and of damage, all as such of `out`.
    pub(super) fn write_to(mut self, out: &mut impl Write, may: May<'_>) -> io::Result<()> {
        self.write_graph(out, may).map_err(|error| match error {
            Failure::Out(error) => error,
            Failure::Read(error) => io::Error::other(error.to_string()),
        })?;
        let mut numbers = RecordsWriter::new(&Records::<u64>::new(1));
        for number in self.ranks.numbers() {
            numbers.next(out)?.fill(number);
        }
        numbers.finish(self.ranks.count, out)?;
        out.write_all(&self.positions.to_le_bytes())
    }

    fn write_graph(&mut self, out: &mut impl Write, may: May<'_>) -> Result<(), Failure> {
        let (def, view, fields) = (self.def, self.view, self.def.fields());
        let mut writer = GraphWriter::new(self.empty(), self.shape, out)?;
        let (mut done, bytes) = (0_usize, self.bytes());
        let mut go_on = |bytes: u64| {
            done += 1;
            if done.is_multiple_of(ASKED) && !may(bytes) { Err(Failure::Read(interrupted())) } else { Ok(()) }
        };
        self.each(|image, row, record| {
            if node_of_vector_row(row).is_none() {
                return Ok(());
            }
            go_on(bytes)?;
            match vector_in(def, image.centre.as_deref(), record) {
                Some(vector) => writer.code_of(&vector)?,
                None => writer.code(coded(record))?,
            }
            Ok(())
        })?;
        let mut links = Vec::new();
        self.each(|image, row, record| {
            if node_of_vector_row(row).is_some() {
                return Ok(());
            }
            go_on(bytes)?;
            image.links(record, 0, &mut links)?;
            writer.links(&links, level_of(record).unwrap_or(0))?;
            Ok(())
        })?;
        self.each(|image, row, record| {
            let Some(number) = node_of_vector_row(row) else { return Ok(()) };
            go_on(bytes)?;
            if let Some(vector) = vector_in(def, image.centre.as_deref(), record) {
                writer.vector(&vector, None)?;
                return Ok(());
            }
            let vectors = document_vectors(def, view, &fields, row_of(number))?;
            let mut all = vectors.iter();
            let vector = all.find(|(position, _)| u64::from(*position) == position_of(number));
            let (_, vector) = vector.ok_or_else(|| damaged(def, "a node"))?;
            writer.vector(vector, Some(coded(record)))?;
            Ok(())
        })?;
        let mut levels = Vec::new();
        self.each(|image, row, record| {
            let top = level_of(record).unwrap_or(0);
            if node_of_vector_row(row).is_some() || top == 0 {
                return Ok(());
            }
            go_on(bytes)?;
            levels.resize_with(usize::from(top), Vec::new);
            for (level, links) in (1..=top).zip(&mut levels) {
                image.links(record, level, links)?;
            }
            writer.levels(&levels)?;
            Ok(())
        })?;
        Ok(writer.finish()?)
    }

    /// [`StreamedImage::for_each_row`] of what also writes.
    fn each(
        &mut self,
        mut visit: impl FnMut(&mut Self, u64, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut failure = None;
        let read = self.for_each_row(|image, row, record| {
            visit(image, row, record).map_err(|error| {
                failure = Some(error);
                interrupted()
            })
        });
        match (read, failure) {
            (_, Some(failure)) => Err(failure),
            (read, None) => Ok(read?),
        }
    }

    /// Writes the nodes that a node is linked to in a level over `links`.
    fn links(&self, record: &[u8], level: u8, links: &mut Vec<u32>) -> Result<()> {
        links.clear();
        let mut sound = true;
        for_each_link(record, level, &mut |link| match self.ranks.rank(link.node) {
            Some(node) => links.push(node),
            None => sound = false,
        })
        .filter(|()| sound)
        .ok_or_else(|| damaged(self.def, "a node"))
    }
}

/// What may fail.
enum Failure {
    Out(io::Error),
    Read(QueryError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Out(error)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Failure {
        Failure::Read(error)
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;

    #[test]
    fn ranks_are_the_places_of_numbers_among_all() {
        let mut rng = Rng::new(1);
        let (mut ranks, mut all, mut number) = (Ranks::default(), Vec::new(), 0);
        for _ in 0..3000 {
            number += 1 + if rng.chance(5) { rng.below(1000) as u64 } else { rng.below(3) as u64 };
            assert!(ranks.push(number));
            all.push(number);
        }
        assert!(!ranks.push(number) && !ranks.push(number - 1) && !ranks.push(3));
        assert!(ranks.numbers().eq(all.iter().copied()) && ranks.count == all.len());
        for number in 0..number + 200 {
            let expected = all.binary_search(&number).ok().map(|rank| rank as u32);
            assert_eq!(ranks.rank(number), expected);
        }
    }
}
