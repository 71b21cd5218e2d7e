//! Adding many vectors to a graph, by several threads.
//!
//! Vectors come in batches, which grow with the graph. Threads plan the links of a batch's nodes, each of them as if those before it
//! in the batch were in the graph already; then they find out which links can go where there will be too many. Both only read the
//! graph. What is left is to set the links, node by node, which takes a tenth of the time of one thread. So the graph is the same for the
//! same vectors, however many threads there are.

use super::MemoryGraph;
use super::threads::{Host, Undisturbed, divide};
use crate::graph::{self, Link, Plan, Scratch, Spare, Stamps};
use crate::metric::Unfit;

/// A batch has one node for so many in the graph: it is planned as if the graph had not changed. The more nodes it has, the sooner threads have
/// something to do, and the nearer to its neighbours is each node, which is compared with all of them before it in the batch.
const SHARE: usize = 32;
/// Nodes of a batch at most: they are compared with each other.
const MOST: usize = 1024;
/// Elements of a batch at most.
const MOST_ELEMENTS: usize = 1 << 19;
/// Nodes that a thread plans at a time: a third of a millisecond's work, against which starting a thread is little.
const PLANNED: usize = 8;
/// Nodes whose links a thread ranks at a time.
const RANKED: usize = 256;

/// So many nodes before their links are changed, or ranked, they are asked for: what is left of the time is waiting for memory otherwise.
const AHEAD: usize = 2;

/// Adds vectors to a graph.
#[derive(Debug)]
pub struct Builder<H = Undisturbed> {
    graph: MemoryGraph,
    /// The nodes of this batch with their levels, without links.
    batch: Vec<(u32, u8)>,
    /// What each thread needs.
    workers: Vec<Scratch<u32, Stamps>>,
    host: H,
}

impl<H: Host> Builder<H> {
    /// One that adds to `graph` with so many threads, the calling one among them.
    pub fn new(graph: MemoryGraph, threads: usize, host: H) -> Builder<H> {
        let workers = (0..threads.max(1)).map(|_| Scratch::default()).collect();
        Builder { graph, batch: Vec::new(), workers, host }
    }

    /// Adds a vector; returns its node. The nodes of a batch are linked when it is full.
    pub fn add(&mut self, vector: &[f32]) -> Result<u32, Unfit> {
        let (node, level) = self.graph.add_unlinked(vector)?;
        self.batch.push((node, level));
        let linked = self.graph.len() - self.batch.len();
        let most = MOST.min(MOST_ELEMENTS / self.graph.dimensions.max(1));
        if self.batch.len() >= (linked / SHARE).min(most) {
            self.link();
        }
        Ok(node)
    }

    /// Gives up the scores of links, two fifths of the memory of a graph of codes of few dimensions: from then on they are computed when they
    /// are needed, which takes longer. False if that was done before.
    pub fn shed(&mut self) -> bool {
        self.graph.scores.take().is_some()
    }

    /// Bytes that so many nodes take while they are added, about: with what each thread needs to know the nodes that it has met.
    pub fn bytes_of(&self, nodes: usize) -> usize {
        self.graph.bytes_of(nodes) + self.workers.len() * nodes.next_power_of_two()
    }

    /// See [`MemoryGraph::forget_vectors`].
    pub fn forget_vectors(&mut self) {
        self.graph.forget_vectors();
    }

    /// The graph. The nodes of the last batch are not linked yet.
    pub fn graph(&self) -> &MemoryGraph {
        &self.graph
    }

    /// The graph with all vectors.
    pub fn finish(mut self) -> MemoryGraph {
        self.link();
        self.graph
    }

    /// Links the nodes of the batch.
    fn link(&mut self) {
        let Builder { graph, batch, workers, host } = self;
        let limits = graph.limits;
        let (frozen, nodes) = (&*graph, batch.as_slice());
        let mut plans = divide(workers, nodes.len(), PLANNED, host, |scratch, at| {
            let (before, rest) = nodes.split_at_checked(at).unwrap_or_default();
            let (node, level) = rest.first().copied().unwrap_or_default();
            let Ok(plan) = graph::plan(frozen, node, level, &frozen.query(node), before, &limits, scratch);
            plan
        });
        leave_out_copies(nodes, &mut plans);
        let new = new_links(nodes, &plans);
        let groups: Vec<&[NewLink]> = new.chunk_by(|a, b| a.end() == b.end()).collect();
        let spare = divide(workers, groups.len(), RANKED, host, |scratch, at| {
            let group = groups.get(at).copied().unwrap_or_default();
            if let Some((ahead, 0)) = groups.get(at + AHEAD).and_then(|ahead| ahead.first()).map(NewLink::end)
            {
                frozen.prefetch_scored_links(ahead);
            }
            let Some((node, level)) = group.first().map(NewLink::end) else { return Vec::new() };
            let links = group.iter().map(|new| new.link);
            let Ok(spare) = graph::spare_links(frozen, node, level, links, &limits, &mut scratch.ranking);
            spare
        });
        let mut spares = Spare::default();
        for (group, links) in groups.iter().zip(&spare) {
            if let (Some((node, level)), false) = (group.first().map(NewLink::end), links.is_empty()) {
                spares.push(node, level, links);
            }
        }
        let mut scratch = std::mem::take(&mut graph.scratch);
        for (at, ((node, _), plan)) in batch.drain(..).zip(&plans).enumerate() {
            plans.get(at + AHEAD).into_iter().for_each(|ahead| graph.prefetch_changed(ahead, &spares));
            let Ok(()) = graph::link(graph, node, plan, &limits, &spares, &mut scratch.ranking);
        }
        graph.scratch = scratch;
    }
}

/// Where a node of the batch is only put below a copy of it, others of the batch, which did not know that, link to it in no level above 0.
fn leave_out_copies(nodes: &[(u32, u8)], plans: &mut [Plan<u32>]) {
    let planned = nodes.iter().zip(&*plans);
    let below = planned.filter(|((_, level), plan)| *level > 0 && plan.is_below_a_copy());
    let mut below: Vec<u32> = below.map(|((node, _), _)| *node).collect();
    if !below.is_empty() {
        below.sort_unstable();
        plans.iter_mut().for_each(|plan| plan.leave_out_above(|node| below.binary_search(&node).is_ok()));
    }
}

/// A link that a node is about to get.
#[derive(Clone, Copy, Debug)]
struct NewLink {
    node: u32,
    level: u8,
    link: Link<u32>,
}

impl NewLink {
    fn end(&self) -> (u32, u8) {
        (self.node, self.level)
    }
}

/// The links that nodes of a batch and others are about to get, both ends of each, in the order of the nodes.
fn new_links(nodes: &[(u32, u8)], plans: &[Plan<u32>]) -> Vec<NewLink> {
    let mut new = Vec::new();
    for ((node, _), plan) in nodes.iter().zip(plans) {
        for (level, links) in plan.links() {
            for link in links {
                new.push(NewLink { node: *node, level, link: *link });
                new.push(NewLink { node: link.node, level, link: Link { score: link.score, node: *node } });
            }
        }
    }
    // In whichever order those of a node are.
    new.sort_unstable_by_key(|new| u64::from(new.node) << 8 | u64::from(new.level));
    new
}
