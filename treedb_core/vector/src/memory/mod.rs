//! A graph in memory.
//!
//! A search reads the codes of every node that it meets, and the links of those that it expands, which are therefore apart; only the
//! nearest that it has found are compared exactly, by the vectors themselves.
//!
//! A clone shares the memory of all nodes that neither changes afterwards. So a graph that is searched can be a version of
//! one that changes. A graph can also be [in a file](MemoryGraph::map): what is not changed stays there.
//!
//! | module | what it holds |
//! |---|---|
//! | `records` | records of one length |
//! | `codes` | the codes of vectors, with the factors of their scores |
//! | `segment` | some of them, in memory or in a file |
//! | `mapped` | files that are mapped, and what records in them may be |
//! | `vectors` | the vectors, as floats or packed |
//! | `above` | the links above level 0 |
//! | `search` | the nearest vectors to another one |
//! | `among` | the same among some of the nodes |
//! | `nodes` | the graph as a store of nodes |
//! | `build` | adding many vectors, by several threads |
//! | `threads` | work that is divided among threads |
//! | `bytes` | a graph as bytes of a file |
//! | `streamed` | such bytes of a graph that is not in memory |
//! | `moved` | going on in a file that a version was written to |

mod above;
mod among;
mod build;
mod bytes;
mod codes;
mod mapped;
mod moved;
mod nodes;
mod records;
mod search;
mod segment;
mod streamed;
mod threads;
mod vectors;

pub use among::Way;
pub use build::Builder;
pub use bytes::MappedGraph;
pub use mapped::{Check, KnownNodes, MappedBytes, MappedFile};
pub use records::Records;
pub use search::{Query, Searcher};
pub use streamed::{GraphWriter, RecordsWriter, Shape};
pub use threads::{Host, Undisturbed};

use std::borrow::Cow;
use std::sync::Arc;

use above::Above;
use codes::Codes;
use vectors::{Elements, Vectors};

use crate::centre::{self, Centre, Reach};
use crate::code::{self, Coded};
use crate::element::Element;
use crate::few_bits::FewBits;
use crate::graph::{self, Limits, NodesMut, Scratch, Spare, Stamps};
use crate::kernel::Kernels;
use crate::metric::{Metric, Unfit};

/// Vectors, and a graph over them. Nodes are numbered from 0; the number of a removed one is used again.
#[derive(Debug)]
pub struct MemoryGraph {
    metric: Metric,
    element: Element,
    dimensions: usize,
    limits: Limits,
    kernels: Kernels,
    /// Searches go by the vectors instead of their codes.
    exact: bool,
    /// Searches and links go by codes of few bits, which are all there is of the vectors.
    few: Option<Arc<FewBits>>,
    /// What codes are about, if it is not zero.
    centre: Option<Arc<Centre>>,
    /// What links are chosen with beside it, if not by the scores that searches go by.
    reach: Option<Reach>,
    /// What scores of codes of 8 bits are in the order of: not always the metric's, if there is a centre.
    scores_of: Metric,
    entry: Option<(u32, u8)>,
    root: Option<u32>,
    codes: Codes,
    /// The number of links in level 0 (lowest byte) and that of the chain in `above` (the rest, 0 for none); the links.
    links: Records<u32>,
    /// Scores of the links in level 0; without them they are computed when they are needed.
    scores: Option<Records<f32>>,
    vectors: Vectors,
    above: Above,
    free: Vec<u32>,
    random: u64,
    /// What it is in, as far as it was not changed, if it was not made in memory.
    file: Option<Arc<MappedFile>>,
    /// What insertions need.
    scratch: Scratch<u32, Stamps>,
    difference: Vec<f32>,
}

impl Clone for MemoryGraph {
    fn clone(&self) -> Self {
        MemoryGraph {
            codes: self.codes.clone(),
            links: self.links.clone(),
            scores: self.scores.clone(),
            vectors: self.vectors.clone(),
            above: self.above.clone(),
            free: self.free.clone(),
            few: self.few.clone(),
            centre: self.centre.clone(),
            file: self.file.clone(),
            scratch: Scratch::default(),
            difference: Vec::new(),
            ..*self
        }
    }
}

impl MemoryGraph {
    /// Levels above level 0 that a full graph still has room for: those of 40,000 nodes, if all were of the highest level.
    pub const SPARE_LEVELS: usize = 1 << 20;

    /// An empty one.
    pub fn new(metric: Metric, dimensions: usize, limits: Limits) -> MemoryGraph {
        MemoryGraph {
            metric,
            element: Element::Float32,
            dimensions,
            limits,
            kernels: Kernels::best(),
            exact: metric == Metric::L1,
            few: None,
            centre: None,
            reach: None,
            scores_of: metric,
            entry: None,
            root: None,
            codes: Codes::new(code::code_bytes(metric, dimensions), metric),
            links: Records::new(1 + limits.links_below),
            scores: Some(Records::new(limits.links_below)),
            vectors: Vectors::new(dimensions, Element::Float32, metric.is_of_bits()),
            above: Above::new(limits.links),
            free: Vec::new(),
            random: 0,
            file: None,
            scratch: Scratch::default(),
            difference: Vec::new(),
        }
    }

    /// Keeps elements of this type: those of vectors that are inserted are rounded to it ([`Element::nearest`]). To be called before
    /// anything is inserted. Bits are bits.
    pub fn with_elements(self, element: Element) -> MemoryGraph {
        let vectors = Vectors::new(self.dimensions, element, self.metric.is_of_bits());
        let graph = MemoryGraph { element, vectors, ..self };
        MemoryGraph { exact: graph.exact && !graph.codes_are_vectors(), ..graph }
    }

    /// Lets searches and links go by the vectors, not by their codes, which cannot tell vectors of few dimensions apart
    /// that are near each other and far from zero. To be called before anything is inserted. The codes of bits and of whole numbers are
    /// the vectors.
    pub fn exact(self) -> MemoryGraph {
        MemoryGraph { exact: !self.codes_are_vectors() && self.few.is_none(), ..self }
    }

    /// Keeps codes of one, two or four bits for each dimension ([`FewBits`]) and nothing else of the vectors: what a search finds is for the
    /// caller to compare exactly, and [`MemoryGraph::vector`] has nothing. It is meant for copies of graphs whose links were chosen by better
    /// codes. To be called before anything is inserted, and of no effect if searches go by the vectors, if codes are the vectors, or
    /// under other metrics than those of products ([`FewBits::is_for`]).
    pub fn with_few_bits(self, bits: usize) -> MemoryGraph {
        if self.exact || self.codes_are_vectors() || !FewBits::is_for(self.metric) {
            return self;
        }
        let few = FewBits::new(self.metric, self.dimensions, bits);
        let (codes, vectors) = (Codes::of_few_bits(few.code_bytes()), Vectors::Coded(Records::new(1)));
        MemoryGraph { codes, vectors, few: Some(Arc::new(few)), ..self }
    }

    /// Makes codes be about a centre. To be called before anything is inserted and after all else is said of the graph, and of no
    /// effect if searches go by the vectors, or the codes are the vectors.
    pub fn set_centre(&mut self, centre: Arc<Centre>) {
        let fits = Centre::is_for(self.metric, self.element) && centre.elements().len() == self.dimensions;
        if self.exact || self.codes_are_vectors() || !fits {
            return;
        }
        if let Some(few) = &mut self.few {
            *few = Arc::new(few.about(&centre));
        } else {
            self.codes = self.codes.emptied_for(Centre::scores_of(self.metric));
        }
        self.scores_of = Centre::scores_of(self.metric);
        self.centre = Some(centre);
    }

    /// Lets links beside a centre be chosen by the distance that [`Reach`] makes of inner products; searches go by these all the same. To be
    /// called after [`MemoryGraph::set_centre`], before anything is inserted, of a graph that is built: a copy of one that is only searched
    /// does not need it, and a file ([`MemoryGraph::write_to`]) does not keep it. Of no effect without a centre, under other metrics, or if
    /// codes have few bits.
    pub fn set_reach(&mut self, reach: Reach) {
        if self.metric == Metric::InnerProduct && self.centre.is_some() && self.few.is_none() {
            self.codes = self.codes.emptied_for_links();
            self.reach = Some(reach);
        }
    }

    /// Whether searches go by [codes of few bits](MemoryGraph::with_few_bits).
    pub fn has_few_bits(&self) -> bool {
        self.few.is_some()
    }

    /// What links are chosen with beside the centre.
    pub fn reach(&self) -> Option<Reach> {
        self.reach
    }

    /// What codes are about, if it is not zero (those of few bits, under inner product, are about zero all the same).
    pub fn centre(&self) -> Option<&Arc<Centre>> {
        self.centre.as_ref()
    }

    /// Whether the codes say exactly what the vectors are.
    fn codes_are_vectors(&self) -> bool {
        self.metric.is_of_bits() || self.element == Element::Int8
    }

    /// Keeps the codes of vectors only, and has no others to give: for a graph that is built by the codes and stored. To be called before
    /// anything is inserted. Of a graph whose searches go by the vectors, it keeps them.
    pub fn without_vectors(self) -> MemoryGraph {
        if self.exact {
            return self;
        }
        MemoryGraph { vectors: Vectors::Coded(Records::new(1)), ..self }
    }

    /// Whether it can go on without the vectors: it has them, and goes by their codes.
    pub fn can_forget_vectors(&self) -> bool {
        !self.exact && matches!(self.vectors, Vectors::Floats(_))
    }

    /// Forgets the vectors, and goes on as a graph [`MemoryGraph::without_vectors`] would: links are the same. Of one that cannot
    /// ([`MemoryGraph::can_forget_vectors`]), nothing is forgotten.
    pub fn forget_vectors(&mut self) {
        if !self.can_forget_vectors() {
            return;
        }
        let mut units = Records::new(1);
        for node in 0..self.vectors.count() as u32 {
            units.push();
            units.get_mut(node).fill(self.unit(node));
        }
        self.vectors = Vectors::Coded(units);
    }

    /// Does not keep the scores of links, which only changes of the graph need: those take longer, and it takes a fifth less
    /// memory.
    pub fn without_scores(self) -> MemoryGraph {
        MemoryGraph { scores: None, ..self }
    }

    /// The same graph in as little memory as it can be searched in: without scores of links, and with vectors in 24 bits for
    /// each element, which are as exact as their greatest element is as a float. [`MemoryGraph::vector`] has nothing then.
    /// Of a graph whose searches go by the vectors, they stay as they are, and so do elements that take no more than 2 bytes.
    pub fn packed(self) -> MemoryGraph {
        let mut graph = MemoryGraph { scores: None, ..self };
        if graph.exact || !matches!(graph.vectors, Vectors::Floats(_)) {
            return graph;
        }
        let (mut packed, mut difference) = (Vectors::packed(graph.dimensions), Vec::new());
        for node in 0..graph.vectors.count() as u32 {
            packed.push();
            let (vector, unit) = (graph.vectors.floats(node), graph.unit(node));
            let coded = match &graph.centre {
                Some(centre) => {
                    centre.subtract_from(vector, unit, &mut difference);
                    &*difference
                }
                None => vector,
            };
            packed.set(node, vector, unit, (coded, graph.codes.get(node).codes));
        }
        graph.vectors = packed;
        graph
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.codes.records().count() - self.free.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of records, vectors and links in memory, without what is in a file.
    pub fn bytes(&self) -> usize {
        let scores = self.scores.as_ref().map_or(0, Records::bytes);
        let nodes = self.codes.records().bytes() + self.links.bytes() + scores;
        nodes + self.vectors.bytes() + self.above.bytes() + 4 * self.free.capacity()
    }

    /// Bytes of records, vectors and links that are in a file.
    pub fn mapped_bytes(&self) -> usize {
        let scores = self.scores.as_ref().map_or(0, Records::mapped_bytes);
        let nodes = self.codes.records().mapped_bytes() + self.links.mapped_bytes() + scores;
        nodes + self.vectors.mapped_bytes() + self.above.records.mapped_bytes()
    }

    /// Asks for what an exact comparison with a node needs, so that it is known whether the graph [is damaged](MemoryGraph::is_damaged) there
    /// before there is an answer.
    pub fn check_vector(&self, node: u32) {
        let _ = self.codes.record(node);
        self.vectors.touch(node);
    }

    /// Bytes that so many nodes take in memory, about, without what is in a file now: how many are above level 0 is random.
    pub fn bytes_of(&self, nodes: usize) -> usize {
        let scores = self.scores.as_ref().map_or(0, |scores| scores.bytes_of(nodes));
        let records = self.codes.records().bytes_of(nodes) + self.links.bytes_of(nodes);
        records + scores + self.vectors.bytes_of(nodes) + self.above.bytes_of(nodes)
    }

    /// Bytes that so many nodes take in memory while all of them are in a file, about.
    pub fn bytes_of_mapped(&self, nodes: usize) -> usize {
        let scores = self.scores.as_ref().map_or(0, |scores| scores.bytes_of_mapped(nodes));
        let records = self.codes.records().bytes_of_mapped(nodes) + self.links.bytes_of_mapped(nodes);
        records + scores + self.vectors.bytes_of_mapped(nodes) + self.above.bytes_of_mapped(nodes)
    }

    /// Bytes that it takes besides those that it shares with `other`, of which it is a clone, or `other` of it.
    pub fn bytes_beside(&self, other: &MemoryGraph) -> usize {
        let scores = match (&self.scores, &other.scores) {
            (Some(own), Some(other)) => own.bytes_beside(other),
            (own, _) => own.as_ref().map_or(0, Records::bytes),
        };
        let codes = self.codes.records().bytes_beside(other.codes.records());
        let links = self.links.bytes_beside(&other.links) + self.above.bytes_beside(&other.above);
        codes + links + scores + self.vectors.bytes_beside(&other.vectors) + 4 * self.free.capacity()
    }

    /// Whether it has about as many levels above level 0 as it can number. At most [`MemoryGraph::SPARE_LEVELS`] more may
    /// be added.
    pub fn is_full(&self) -> bool {
        self.above.count() + MemoryGraph::SPARE_LEVELS > nodes::MOST_CHAINS
    }

    /// Adds a vector; returns its node.
    pub fn insert(&mut self, vector: &[f32]) -> Result<u32, Unfit> {
        let (node, level) = self.add_unlinked(vector)?;
        let (limits, mut scratch) = (self.limits, std::mem::take(&mut self.scratch));
        let Ok(plan) = graph::plan(self, node, level, &self.query(node), &[], &limits, &mut scratch);
        let Ok(()) = graph::link(self, node, &plan, &limits, &Spare::default(), &mut scratch.ranking);
        self.scratch = scratch;
        Ok(node)
    }

    /// Adds a vector as a node without links; returns the node and its level.
    fn add_unlinked(&mut self, vector: &[f32]) -> Result<(u32, u8), Unfit> {
        let vector = &*self.rounded(vector)?;
        let unit = self.metric.check(vector, self.dimensions)?;
        let node = self.add_node();
        self.store_vector(node, vector, unit);
        let level = graph::level_of(self.next_random(), &self.limits);
        self.set_level(node, level);
        Ok((node, level))
    }

    /// The vector of a node that is linked as a query, of codes alone if these are what is compared: to read the vector would be to wait for
    /// memory.
    fn query(&self, node: u32) -> Query<'_> {
        let (vector, unit) = if self.exact { self.vectors.get(node) } else { (Elements::Floats(&[]), 1.0) };
        let by_reach = self.reach.is_some();
        Query { vector, unit, coded: self.codes.get_for_links(node), target: None, by_reach }
    }

    /// Removes a node that there is.
    pub fn remove(&mut self, node: u32) {
        let limits = self.limits;
        let Ok(()) = graph::delete(self, node, &limits);
        self.forget(node);
    }

    /// Adds a node that has no vector and no links yet. For graphs that are copies of another one: the caller sets the vector,
    /// the links ([`NodesMut::set_links`]) and where searches begin ([`NodesMut::set_entry`]).
    pub fn add_node(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.codes.records_mut().push();
            self.links.push();
            if let Some(scores) = &mut self.scores {
                scores.push();
            }
            self.vectors.push();
            self.codes.records().count() as u32 - 1
        })
    }

    /// Sets the vector of a node, but not its links.
    pub fn set_vector(&mut self, node: u32, vector: &[f32]) -> Result<(), Unfit> {
        let vector = &*self.rounded(vector)?;
        let unit = self.metric.check(vector, self.dimensions)?;
        self.store_vector(node, vector, unit);
        Ok(())
    }

    /// A vector with the nearest elements of the graph's type.
    fn rounded<'v>(&self, vector: &'v [f32]) -> Result<Cow<'v, [f32]>, Unfit> {
        if self.element == Element::Float32 {
            return Ok(Cow::Borrowed(vector));
        }
        // An infinity or a NaN may have a nearest element.
        if let Some(at) = vector.iter().position(|number| !number.is_finite()) {
            return Err(Unfit::NotFinite { at });
        }
        Ok(vector.iter().map(|number| self.element.nearest(*number)).collect())
    }

    fn store_vector(&mut self, node: u32, vector: &[f32], unit: f32) {
        let mut coded = vector;
        self.codes.set(node, |codes| {
            let factors = match (&self.few, &self.centre) {
                (Some(few), Some(centre)) if centre.moves_few_bits() => {
                    centre.subtract_from(vector, unit, &mut self.difference);
                    few.encode(&self.difference, 1.0, codes)
                }
                (Some(few), _) => few.encode(vector, unit, codes),
                (None, centre) => {
                    let (centre, kind) = (centre.as_deref(), (self.metric, self.element));
                    let factors = centre::encode(centre, kind, (vector, unit), &mut self.difference, codes);
                    if centre.is_some() {
                        coded = &self.difference;
                    }
                    factors
                }
            };
            let of_links = self.reach.map(|reach| reach.link_factors(Coded { factors, codes }));
            (factors, of_links.unwrap_or(factors))
        });
        self.vectors.set(node, vector, unit, (coded, self.codes.get(node).codes));
    }

    /// Makes a node one of this level, without links above level 0, unless it is of this level.
    pub fn set_level(&mut self, node: u32, level: u8) {
        let Ok(now) = self.level(node);
        if now != level {
            self.above.give_back(self.chain(node));
            let chain = self.above.chain(level);
            self.set_chain(node, chain);
        }
    }

    /// Forgets a node that no other is linked to any more.
    pub fn forget(&mut self, node: u32) {
        self.above.give_back(self.chain(node));
        self.set_chain(node, 0);
        let Ok(()) = self.set_links(node, 0, &[]);
        self.free.push(node);
    }

    /// What is wrong with the graph, if anything is.
    pub fn check(&self) -> Vec<graph::Damage<u32>> {
        let nodes =
            (0..self.codes.records().count() as u32).filter(|node| !self.free.contains(node)).collect();
        let Ok(damage) = graph::check(self, &nodes, &self.limits);
        damage
    }

    /// The vector of a node; empty if there is none of this number, if the graph is [`MemoryGraph::packed`], or if elements are no
    /// floats of 4 bytes.
    #[inline]
    pub fn vector(&self, node: u32) -> &[f32] {
        self.vectors.floats(node)
    }

    /// The vector of a node that there is, of numbers of any type; if they are no floats of 4 bytes, in `place`. Of a
    /// [`MemoryGraph::packed`] graph under cosine it has length 1. Empty if there are only codes of few bits
    /// ([`MemoryGraph::with_few_bits`]).
    #[inline]
    pub fn read_vector<'p>(&'p self, node: u32, place: &'p mut Vec<f32>) -> &'p [f32] {
        if self.few.is_some() {
            return &[];
        }
        self.vectors.read(node, (self.scored(node), self.centre.as_deref()), &self.kernels, place).0
    }

    /// What makes the vector of a node of length 1 where only its direction counts, otherwise 1.
    pub fn unit(&self, node: u32) -> f32 {
        self.vectors.get(node).1
    }

    /// The codes of a node's vector, of 8 bits each, about the [centre](MemoryGraph::centre) if there is one, or of bits; those of few bits
    /// compare with one another only.
    pub fn coded(&self, node: u32) -> Coded<'_> {
        let coded = self.scored(node);
        let factors = match self.scores_of {
            Metric::L2 | Metric::Hamming | Metric::Jaccard => coded.factors,
            _ => coded.with_squares(),
        };
        Coded { factors, ..coded }
    }

    /// The same, without the squared length if the scores do not need it.
    #[inline]
    fn scored(&self, node: u32) -> Coded<'_> {
        self.codes.get(node)
    }

    /// Steele and others' splitmix64: the same graph from the same inserts.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
