//! The rows of a vector index's table.
//!
//! | row | contents |
//! |---|---|
//! | 0 | the centre that codes of 8 bits are about ([`treedb_vector::centre`]): its elements, 4 bytes each; then, by inner product, the number of the reach that links are chosen with ([`treedb_vector::centre::Reach`]), 4 bytes, which an index does not have whose links were chosen by inner products. Missing if the centre is zero |
//! | 1 | the head: level of the entry point, 1 byte; its node, 8 bytes; the root, 8 bytes. Missing if there are no nodes |
//! | `2n` | the links of node `n`: its level, 1 byte; then for every level from 0 on the number of links, 1 byte, and the links: node, 8 bytes, score, 4 bytes, which is a squared distance with the element of the reach if there is one |
//! | `2n + 1` | the vector of node `n`; `scalar`, `binary`, `bits2` and `bits4`, which differ only in memory: scale, squared length (by inner product about a centre `c`: `-2 <c, x - c>`) and sum of the codes, 4 bytes each, and the codes, 1 byte for each element ([`treedb_vector::code`]), of the difference from the centre; `none`: what makes its length 1 under cosine, otherwise 1, and the elements, 4 bytes each, or 2 if they are `float16` or `bfloat16`; of `int8` elements: as `scalar`, with 1, or what makes the length 1 under cosine, for the scale, so that the codes are the elements; of bits: as `scalar`, with 8 bits in a byte, the first in its highest place, and 0s at the end |
//!
//! A node is a vector of a row of the collection: its number has the number of the row in its lowest 40 bits, and the
//! position of the vector in the row's document above them, which is 0 if that is its only one. Numbers are little-endian.

use std::sync::Arc;

use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::vector::{Element, VectorDef};
use treedb_storage::{Reads, Table};
use treedb_vector::centre::{self, Centre, Reach};
use treedb_vector::code::{self, Coded, Factors};
use treedb_vector::graph::Link;
use treedb_vector::kernel::Kernels;
use treedb_vector::metric::Metric;

use super::floats_of;

/// Bits of a node's number that are its row's.
const ROW_BITS: u32 = 40;

/// The node of a row's vector at this position of the document.
pub(super) fn node_of(def: &VectorDef, row: u64, position: u32) -> Result<u64> {
    if row >> ROW_BITS != 0 {
        let message =
            format!("index {}: a collection with more than 2^{ROW_BITS} rows cannot have it", def.name);
        return Err(QueryError::new(ErrorCode::InternalError, message));
    }
    Ok(u64::from(position) << ROW_BITS | row)
}

/// The first node of a position whose row is `row` or a later one.
pub(super) fn first_node(position: u64, row: u64) -> u64 {
    position << ROW_BITS | row
}

/// The row of a node.
pub(super) fn row_of(node: u64) -> u64 {
    node & ((1 << ROW_BITS) - 1)
}

/// The position of a node's vector in the row's document.
pub(super) fn position_of(node: u64) -> u64 {
    node >> ROW_BITS
}

/// The row of the centre.
pub(super) const CENTRE: u64 = 0;

/// The row of the head.
pub(super) const HEAD: u64 = 1;

/// The row of a node's links.
pub(super) fn links_row(node: u64) -> u64 {
    node.saturating_mul(2)
}

/// The row of a node's vector.
pub(super) fn vector_row(node: u64) -> u64 {
    links_row(node).saturating_add(1)
}

/// The node whose vector is in this row; `None` if it is another kind of row.
pub(super) fn node_of_vector_row(row: u64) -> Option<u64> {
    (row % 2 == 1 && row != HEAD).then_some(row / 2)
}

/// The number of nodes in a table of so many rows: two for each, the head if there is any, and the centre, if there is one.
pub(super) fn nodes_in(rows: u64) -> u64 {
    rows.saturating_sub(1) / 2
}

/// The error of a damaged record.
pub(super) fn damaged(def: &VectorDef, what: &str) -> QueryError {
    let name = &def.name;
    let message = format!("index {name}: {what} is damaged: drop the index and create it again");
    QueryError::new(ErrorCode::InternalError, message)
}

/// Where searches begin, and the root of the tree that keeps level 0 in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Head {
    pub(super) entry: Option<(u64, u8)>,
    pub(super) root: Option<u64>,
}

impl Head {
    /// The record; `None` if there are no nodes.
    pub(super) fn encode(self) -> Option<Vec<u8>> {
        let ((entry, level), root) = (self.entry?, self.root?);
        Some([&[level][..], &entry.to_le_bytes(), &root.to_le_bytes()].concat())
    }

    pub(super) fn decode(bytes: Option<&[u8]>) -> Option<Head> {
        let Some(bytes) = bytes else { return Some(Head::default()) };
        let (level, rest) = bytes.split_first()?;
        let (entry, root) = rest.split_first_chunk()?;
        let root = u64::from_le_bytes(root.try_into().ok()?);
        Some(Head { entry: Some((u64::from_le_bytes(*entry), *level)), root: Some(root) })
    }
}

/// Bytes of a link.
const LINK: usize = 12;

/// The record of a node's links, from level 0 on.
pub(super) fn encode_links(levels: &[Vec<Link<u64>>]) -> Vec<u8> {
    let links: usize = levels.iter().map(Vec::len).sum();
    let mut out = Vec::with_capacity(1 + levels.len() + links * LINK);
    // Levels end at 24 and links at 192 (`Limits`).
    out.push(levels.len().saturating_sub(1) as u8);
    for level in levels {
        out.push(level.len() as u8);
        for link in level {
            out.extend_from_slice(&link.node.to_le_bytes());
            out.extend_from_slice(&link.score.to_le_bytes());
        }
    }
    out
}

/// The level of a node, from the record of its links.
pub(super) fn level_of(record: &[u8]) -> Option<u8> {
    record.first().copied()
}

/// Calls `each` with the links of one level; `None` if the record is damaged. A level that the node is not in has none.
pub(super) fn for_each_link(record: &[u8], level: u8, each: &mut dyn FnMut(Link<u64>)) -> Option<()> {
    let (highest, mut rest) = record.split_first()?;
    if level > *highest {
        return Some(());
    }
    for at in 0..=level {
        let (count, after) = rest.split_first()?;
        let (links, after) = after.split_at_checked(usize::from(*count) * LINK)?;
        if at == level {
            for link in links.as_chunks::<LINK>().0 {
                let (node, score) = link.split_first_chunk()?;
                let score = f32::from_le_bytes(score.try_into().ok()?);
                each(Link { score, node: u64::from_le_bytes(*node) });
            }
        }
        rest = after;
    }
    Some(())
}

/// Whether the codes of an index may be about a centre.
pub(super) fn may_have_centre(def: &VectorDef) -> bool {
    // Sums of differences are compared by the vectors wherever the graph is in memory.
    def.has_codes() && def.metric != Metric::L1 && Centre::is_for(def.metric, def.elements)
}

/// The record of a centre, and of what links are chosen with beside it.
pub(super) fn encode_centre(centre: &Centre, reach: Option<Reach>) -> Vec<u8> {
    let numbers = centre.elements().iter().copied().chain(reach.map(Reach::number));
    numbers.flat_map(f32::to_le_bytes).collect()
}

/// The centre that the codes in a table are about, if it is not zero.
pub(super) fn centre_in(def: &VectorDef, reads: &impl Reads, table: &Table) -> Result<Option<Arc<Centre>>> {
    Ok(centre_and_reach_in(def, reads, table)?.map(|(centre, _)| centre))
}

/// The same, and what links are chosen with beside it.
pub(super) fn centre_and_reach_in(
    def: &VectorDef,
    reads: &impl Reads,
    table: &Table,
) -> Result<Option<(Arc<Centre>, Option<Reach>)>> {
    if !may_have_centre(def) {
        return Ok(None);
    }
    let (mut elements, mut length) = (Vec::new(), 0);
    if !reads
        .visit_row(table, CENTRE, &mut |record| (elements, length) = (floats_of(record), record.len()))?
    {
        return Ok(None);
    }
    let has_reach = def.metric == Metric::InnerProduct && elements.len() > def.dimensions;
    let number = if has_reach { elements.pop() } else { None };
    let is_whole = length == (def.dimensions + usize::from(has_reach)) * size_of::<f32>();
    let centre = Some(elements).filter(|_| is_whole);
    let centre = centre.and_then(|elements| Centre::new(def.metric, def.elements, elements));
    let reach = number.map(Reach::new);
    let (Some(centre), true) = (centre, reach != Some(None)) else { return Err(damaged(def, "the centre")) };
    Ok(Some((Arc::new(centre), reach.flatten())))
}

/// The record of a vector that is in the index, whose codes are about this centre.
pub(super) fn encode_vector(def: &VectorDef, centre: Option<&Centre>, vector: &[f32]) -> Vec<u8> {
    let mut record = Vec::new();
    encode_vector_over(def, centre, vector, &mut record);
    record
}

/// The record of a query that is compared with those of vectors by their codes, which are about this centre.
pub(super) fn encode_query(def: &VectorDef, centre: Option<&Centre>, vector: &[f32]) -> Vec<u8> {
    let Some(centre) = centre else { return encode_vector(def, None, vector) };
    let unit = def.metric.check(vector, def.dimensions).unwrap_or(1.0);
    let (mut record, bytes) = (Vec::new(), code::code_bytes(def.metric, vector.len()));
    encode_codes(bytes, &mut record, |codes| centre.encode_query(vector, unit, &mut Vec::new(), codes));
    record
}

/// Writes the record of a vector that is in the index over `out`.
pub(super) fn encode_vector_over(
    def: &VectorDef,
    centre: Option<&Centre>,
    vector: &[f32],
    out: &mut Vec<u8>,
) {
    // The definition has let it in, so it fits.
    let unit = def.metric.check(vector, def.dimensions).unwrap_or(1.0);
    out.clear();
    if def.has_codes() {
        let bytes = code::code_bytes(def.metric, vector.len());
        return encode_codes(bytes, out, |codes| {
            let kind = (def.metric, def.elements);
            centre::encode(centre, kind, (vector, unit), &mut Vec::new(), codes)
        });
    }
    out.reserve(4 + 4 * vector.len());
    out.extend_from_slice(&unit.to_le_bytes());
    match def.elements {
        element if element.is_half() => {
            vector.iter().for_each(|number| out.extend_from_slice(&element.half(*number).to_le_bytes()));
        }
        _ => vector.iter().for_each(|element| out.extend_from_slice(&element.to_le_bytes())),
    }
}

/// Writes the record of so many bytes of codes, which `encode` writes, behind their factors, to an empty `out`.
fn encode_codes(bytes: usize, out: &mut Vec<u8>, encode: impl FnOnce(&mut [u8]) -> Factors) {
    out.resize(Factors::BYTES + bytes, 0);
    if let Some((factors, codes)) = out.split_first_chunk_mut() {
        *factors = encode(codes).to_bytes();
    }
}

/// The record of the codes of a vector.
pub(super) fn encode_coded(coded: Coded<'_>) -> Vec<u8> {
    [&coded.factors.to_bytes()[..], coded.codes].concat()
}

/// Compares records of vectors.
#[derive(Debug)]
pub(super) struct Comparison {
    metric: Metric,
    /// What scores of codes are in the order of.
    scores_of: Metric,
    elements: Element,
    has_codes: bool,
    /// What links are chosen with.
    reach: Option<Reach>,
    kernels: Kernels,
}

impl Comparison {
    /// Of an index whose codes are about this centre.
    pub(super) fn of(def: &VectorDef, centre: Option<&Centre>) -> Self {
        let (metric, elements, has_codes) = (def.metric, def.elements, def.has_codes());
        let scores_of = centre.map_or(metric, |_| Centre::scores_of(metric));
        Comparison { metric, scores_of, elements, has_codes, reach: None, kernels: Kernels::best() }
    }

    /// Of vectors that are to be linked: by distances, if there is a reach.
    pub(super) fn for_links(&mut self, reach: Option<Reach>) {
        self.reach = reach;
    }

    /// Reads the record of a vector, once for all that it is compared with.
    pub(super) fn read<'r>(&self, record: &'r [u8]) -> Compared<'r> {
        if !self.has_codes {
            let (unit, elements) = floats(self.elements, record);
            return Compared::Floats(unit, elements);
        }
        let coded = coded(record);
        let factors = self.reach.map_or(coded.factors, |reach| reach.link_factors(coded));
        Compared::Codes(Coded { factors, ..coded })
    }

    /// A number that is the less, the nearer two vectors are, from the record of one.
    pub(super) fn score(&self, a: &[u8], b: &Compared<'_>) -> f32 {
        match (self.read(a), b) {
            (Compared::Codes(a), Compared::Codes(b)) => code::score(self.scores_of, &self.kernels, a, *b),
            (Compared::Floats(unit, a), Compared::Floats(other_unit, b)) => {
                self.metric.score(&self.kernels, &a, b, unit * other_unit)
            }
            // They are of one index.
            _ => f32::INFINITY,
        }
    }
}

/// A vector that is compared with others, from its record.
#[derive(Debug)]
pub(super) enum Compared<'r> {
    /// Its codes, with the factors that links are chosen by, if the comparison is for links.
    Codes(Coded<'r>),
    /// What makes it of length 1, and its elements.
    Floats(f32, Vec<f32>),
}

/// The codes in a record of a vector.
pub(super) fn coded(record: &[u8]) -> Coded<'_> {
    let (factors, codes) = record.split_at_checked(Factors::BYTES).unwrap_or_default();
    Coded { factors: Factors::from_bytes(factors), codes }
}

/// What makes the vector of a record of length 1, and its elements.
pub(super) fn floats(elements: Element, record: &[u8]) -> (f32, Vec<f32>) {
    let Some((unit, rest)) = record.split_first_chunk() else { return (1.0, Vec::new()) };
    let vector = match elements.is_half() {
        true => rest.as_chunks().0.iter().map(|half| elements.wide(u16::from_le_bytes(*half))).collect(),
        false => rest.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
    };
    (f32::from_le_bytes(*unit), vector)
}

/// The vector in a record, if it says what that is as exactly as an image needs it: always but where there are codes of 8 bits, and the
/// image has the vectors. Of codes of 8 bits, which are about this centre, it makes those of fewer.
pub(super) fn vector_in(def: &VectorDef, centre: Option<&Centre>, record: &[u8]) -> Option<Vec<f32>> {
    let codes = coded(record).codes;
    if def.metric.is_of_bits() {
        let bits = codes.iter().flat_map(|byte| (0..8).map(move |at| byte << at & 0x80 != 0));
        return Some(bits.take(def.dimensions).map(f32::from).collect());
    }
    if def.codes_are_vectors() {
        return Some(codes.iter().map(|code| f32::from(*code) - 128.0).collect());
    }
    if def.quantization.few_bits().is_some() {
        let mut vector: Vec<f32> = coded(record).elements().collect();
        centre.into_iter().for_each(|centre| centre.add_to(&mut vector));
        // The greatest float may be rounded to one that is too large.
        vector.iter_mut().for_each(|element| *element = element.clamp(f32::MIN, f32::MAX));
        return Some(vector);
    }
    (!def.has_codes()).then(|| floats(def.elements, record).1)
}

#[cfg(test)]
mod tests {
    use treedb_query::index::vector::Quantization;

    use super::*;

    #[test]
    fn a_record_says_what_a_vector_is_unless_it_has_codes_of_other_numbers() {
        for (metric, elements, quantization, vector) in [
            (Metric::L2, Element::Float32, Quantization::None, vec![0.1, -2e20, 3.5]),
            (Metric::Cosine, Element::Float16, Quantization::None, vec![0.5, -2.0, 1024.0]),
            (Metric::L1, Element::BFloat16, Quantization::None, vec![0.5, -2.0, 1024.0]),
            (Metric::Cosine, Element::Int8, Quantization::None, vec![-128.0, 127.0, 0.0]),
            (Metric::Hamming, Element::Float32, Quantization::None, vec![1.0, 0.0, 1.0]),
            (Metric::L2, Element::Float32, Quantization::Scalar, vec![]),
            (Metric::L2, Element::Float16, Quantization::Scalar, vec![]),
        ] {
            let def = VectorDef { elements, quantization, ..VectorDef::new("v", 3, metric) };
            let whole = if vector.is_empty() { vec![1.0, 2.0, 3.0] } else { vector.clone() };
            let record = encode_vector(&def, None, &whole);
            let found = vector_in(&def, None, &record);
            assert_eq!(found, Some(vector).filter(|vector| !vector.is_empty()), "{def:?}");
            for len in 0..record.len() {
                let _ = vector_in(&def, None, &record[..len]);
            }
        }
    }

    #[test]
    fn records_come_back_from_their_bytes() {
        assert_eq!(Head::decode(None), Some(Head::default()));
        let head = Head { entry: Some((7, 3)), root: Some(9) };
        assert_eq!(Head::decode(head.encode().as_deref()), Some(head));
        assert_eq!(Head::decode(Some(&[1, 2])), None);
        let link = |node: u64| Link { score: node as f32 / 2.0, node };
        let levels = [vec![link(1), link(2)], vec![], vec![link(u64::MAX)]];
        let record = encode_links(&levels);
        assert_eq!(level_of(&record), Some(2));
        for (level, links) in levels.iter().enumerate() {
            let mut found = Vec::new();
            for_each_link(&record, level as u8, &mut |link| found.push(link)).unwrap();
            assert_eq!(found, *links);
        }
        assert_eq!(for_each_link(&record, 3, &mut |_| unreachable!("there is no such level")), Some(()));
        assert_eq!(for_each_link(&record[..5], 0, &mut |_| ()), None);
        let def = VectorDef::new("v", 2, Metric::L2);
        for (row, position) in [(1, 0), (7, 999), ((1 << 40) - 1, 3)] {
            let node = node_of(&def, row, position).unwrap();
            assert_eq!((row_of(node), position_of(node)), (row, u64::from(position)));
            assert_eq!(node_of_vector_row(vector_row(node)), Some(node));
        }
        assert_eq!(node_of(&def, 5, 0).unwrap(), 5);
        assert!(node_of(&def, 1 << 40, 0).is_err());
        for node in [1, 2, 1 << 40] {
            assert_eq!(node_of_vector_row(vector_row(node)), Some(node));
            assert_eq!(node_of_vector_row(links_row(node)), None);
        }
        assert_eq!(node_of_vector_row(HEAD), None);
    }
}
