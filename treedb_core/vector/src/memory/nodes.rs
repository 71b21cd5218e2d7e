//! The graph as a store of nodes.

use std::convert::Infallible;

use super::MemoryGraph;
use super::above::{put, take};
use super::search::Query;
use super::vectors::Elements;
use crate::code::{self, Factors};
use crate::graph::{Link, Nodes, NodesMut, Plan, Spare, Visited};
use crate::kernel;
use crate::metric::Metric;

/// Chains that can be numbered beside the number of links, with number 0: see [`MemoryGraph::is_full`].
pub(super) const MOST_CHAINS: usize = 1 << 24;

/// Nodes that are compared at a time, while the codes of as many more are on their way from memory: a processor fetches about so many
/// lines at once.
const TOGETHER: usize = 8;

impl MemoryGraph {
    /// The links of a node in level 0.
    #[inline]
    fn below(&self, node: u32) -> &[u32] {
        match self.links.get(node) {
            [numbers, links @ ..] => links.get(..(numbers & 0xff) as usize).unwrap_or(&[]),
            [] => &[],
        }
    }

    /// The chain of a node's links above level 0; 0 for none.
    pub(super) fn chain(&self, node: u32) -> u32 {
        self.links.get(node).first().map_or(0, |numbers| numbers >> 8)
    }

    pub(super) fn set_chain(&mut self, node: u32, chain: u32) {
        if let Some(numbers) = self.links.get_mut(node).first_mut() {
            *numbers = *numbers & 0xff | chain << 8;
        }
    }

    /// Takes a link of a node away, and adds one: in level 0 in the order of their scores, but for the first.
    fn change_link(&mut self, node: u32, level: u8, gone: Option<u32>, new: Option<Link<u32>>) {
        if level > 0 {
            self.above.change_link(self.chain(node), level, gone, new.map(|link| link.node));
            return;
        }
        let [numbers, places @ ..] = self.links.get_mut(node) else { return };
        let mut scores = self.scores.as_mut().map(|scores| scores.get_mut(node));
        let mut count = (*numbers & 0xff) as usize;
        let links = places.get(..count).unwrap_or(&[]);
        if let Some(at) = gone.and_then(|gone| links.iter().position(|link| *link == gone)) {
            take(places, at, count);
            scores.iter_mut().for_each(|scores| take(scores, at, count));
            count -= 1;
        }
        if let Some(new) = new {
            let others = scores.as_ref().and_then(|scores| scores.get(1..count));
            let nearer = |others: &[f32]| 1 + others.partition_point(|score| *score <= new.score);
            let at = others.map_or(count, nearer);
            if put(places, at, count, new.node) {
                if let Some(scores) = &mut scores {
                    put(scores, at, count, new.score);
                }
                count += 1;
            }
        }
        // At most 192, by `Limits`.
        *numbers = *numbers & !0xff | count.min(0xff) as u32;
    }

    /// Asks for the links of a node in level 0, with their scores, before they are needed.
    pub(super) fn prefetch_scored_links(&self, node: u32) {
        kernel::prefetch(self.links.get(node));
        if let Some(scores) = &self.scores {
            kernel::prefetch(scores.get(node));
        }
    }

    /// The same of the nodes whose links change when one is linked as planned, most of them.
    pub(super) fn prefetch_changed(&self, plan: &Plan<u32>, spares: &Spare<u32>) {
        let below = plan.links().filter(|(level, _)| *level == 0);
        for link in below.flat_map(|(_, links)| links) {
            self.prefetch_scored_links(link.node);
            spares.of(link.node, 0).first().into_iter().for_each(|gone| self.prefetch_scored_links(*gone));
        }
    }

    /// Asks for what the scores of nodes need before it is needed; if it is codes that are compared (`dots`), says where they are.
    #[inline(always)]
    fn fetch<'s>(&'s self, nodes: &[u32], dots: bool, records: &mut [&'s [u8]; TOGETHER]) {
        if !dots {
            nodes.iter().for_each(|node| self.prefetch(*node));
            return;
        }
        for (record, node) in records.iter_mut().zip(nodes) {
            *record = self.codes.record(*node);
            kernel::prefetch(record);
        }
    }

    /// Whether scores are made of products of codes of 8 bits.
    #[inline]
    fn compares_products(&self) -> bool {
        let by_codes = !self.exact && self.few.is_none();
        by_codes && matches!(self.metric, Metric::Cosine | Metric::InnerProduct | Metric::L2)
    }

    /// How far a node is from a vector, which `unit` makes of length 1.
    #[inline]
    fn exact_score(&self, vector: Elements<'_>, unit: f32, node: u32) -> f32 {
        let (other, other_unit) = self.vectors.get(node);
        vector.score(other, self.metric, &self.kernels, unit * other_unit)
    }
}

impl Nodes for MemoryGraph {
    type Node = u32;
    type Query<'q> = Query<'q>;
    type Error = Infallible;

    fn entry(&self) -> Result<Option<(u32, u8)>, Infallible> {
        Ok(self.entry)
    }

    #[inline]
    fn links(&self, node: u32, level: u8, out: &mut Vec<u32>) -> Result<(), Infallible> {
        out.clear();
        match level {
            0 => out.extend_from_slice(self.below(node)),
            _ => out.extend_from_slice(self.above.links(self.chain(node), level)),
        }
        Ok(())
    }

    #[inline]
    fn score(&self, query: &Query<'_>, node: u32) -> Result<f32, Infallible> {
        Ok(match (&self.few, query.target) {
            _ if self.exact => self.exact_score(query.vector, query.unit, node),
            (None, _) if query.by_reach => {
                code::score(self.scores_of, &self.kernels, self.codes.get_for_links(node), query.coded)
            }
            (None, _) => code::score(self.scores_of, &self.kernels, self.scored(node), query.coded),
            (Some(few), Some(target)) => few.score(&self.kernels, target, self.scored(node)),
            // That of a node that is linked.
            (Some(few), None) => few.between(query.coded, self.scored(node)),
        })
    }

    #[inline]
    fn scores(&self, query: &Query<'_>, nodes: &[u32], out: &mut Vec<f32>) -> Result<(), Infallible> {
        out.clear();
        let dots = self.compares_products();
        let (mut first, mut second) = ([&[][..]; TOGETHER], [&[][..]; TOGETHER]);
        let (mut now, mut next) = (&mut first, &mut second);
        let mut blocks = nodes.chunks(TOGETHER);
        let mut block = blocks.next().unwrap_or(&[]);
        self.fetch(block, dots, now);
        while !block.is_empty() {
            let following = blocks.next().unwrap_or(&[]);
            self.fetch(following, dots, next);
            if dots {
                let (records, mut products) = (now.get(..block.len()).unwrap_or(&[]), [0; TOGETHER]);
                (self.kernels.codes_of)(records, query.coded.codes, &mut products);
                let products = records.iter().zip(products);
                // Nothing but the scale is read where the scores need nothing else.
                match self.scores_of {
                    _ if query.by_reach => out.extend(products.map(|(record, products)| {
                        let factors = self.codes.link_factors_in(record);
                        code::score_of(Metric::L2, factors, query.coded.factors, products)
                    })),
                    Metric::L2 => out.extend(products.map(|(record, products)| {
                        let factors = self.codes.factors_in(record);
                        code::score_of(Metric::L2, factors, query.coded.factors, products)
                    })),
                    metric => out.extend(products.map(|(record, products)| {
                        let factors = Factors { scale: self.codes.scale_in(record), ..Factors::default() };
                        code::score_of(metric, factors, query.coded.factors, products)
                    })),
                }
            } else {
                for node in block {
                    out.push(self.score(query, *node)?);
                }
            }
            block = following;
            std::mem::swap(&mut now, &mut next);
        }
        Ok(())
    }

    fn new_links_above(
        &self,
        query: &Query<'_>,
        (node, level): (u32, u8),
        (links, scores): (&mut Vec<u32>, &mut Vec<f32>),
        met: &mut impl Visited<u32>,
    ) -> Result<(), Infallible> {
        self.links(node, level, links)?;
        met.keep_new(links);
        self.scores(query, links, scores)
    }

    fn tied_are_copies(&self) -> bool {
        !self.metric.is_of_bits()
    }

    #[inline]
    fn prefetch(&self, node: u32) {
        match self.exact {
            true => self.vectors.prefetch(node),
            false => {
                kernel::prefetch(self.codes.record(node));
            }
        }
    }

    #[inline]
    fn prefetch_links(&self, node: u32) {
        kernel::prefetch(self.links.get(node));
    }
}

impl NodesMut for MemoryGraph {
    fn root(&self) -> Result<Option<u32>, Infallible> {
        Ok(self.root)
    }

    fn set_root(&mut self, root: Option<u32>) -> Result<(), Infallible> {
        self.root = root;
        Ok(())
    }

    fn set_entry(&mut self, entry: Option<(u32, u8)>) -> Result<(), Infallible> {
        self.entry = entry;
        Ok(())
    }

    fn scored_links(&self, node: u32, level: u8, out: &mut Vec<Link<u32>>) -> Result<(), Infallible> {
        out.clear();
        let scored = |other: u32| -> Link<u32> {
            let Ok(score) = self.between(node, other);
            Link { score, node: other }
        };
        match (level, &self.scores) {
            (0, Some(scores)) => {
                let links = self.below(node).iter().zip(scores.get(node));
                out.extend(links.map(|(node, score)| Link { score: *score, node: *node }));
            }
            (0, None) => out.extend(self.below(node).iter().map(|other| scored(*other))),
            _ => out.extend(self.above.links(self.chain(node), level).iter().map(|other| scored(*other))),
        }
        Ok(())
    }

    fn set_links(&mut self, node: u32, level: u8, links: &[Link<u32>]) -> Result<(), Infallible> {
        if level > 0 {
            self.above.set_links(self.chain(node), level, links.iter().map(|link| link.node));
            return Ok(());
        }
        if let [numbers, places @ ..] = self.links.get_mut(node) {
            // At most 192, by `Limits`.
            *numbers = *numbers & !0xff | links.len().min(places.len()).min(0xff) as u32;
            places.iter_mut().zip(links).for_each(|(place, link)| *place = link.node);
        }
        if let Some(scores) = &mut self.scores {
            let places = scores.get_mut(node).iter_mut();
            places.zip(links).for_each(|(place, link)| *place = link.score);
        }
        Ok(())
    }

    fn linked(&self, node: u32, level: u8, out: &mut Vec<u32>) -> Result<(), Infallible> {
        self.links(node, level, out)
    }

    fn add_link(&mut self, node: u32, level: u8, link: Link<u32>) -> Result<(), Infallible> {
        self.change_link(node, level, None, Some(link));
        Ok(())
    }

    fn remove_link(&mut self, node: u32, level: u8, other: u32) -> Result<(), Infallible> {
        self.change_link(node, level, Some(other), None);
        Ok(())
    }

    fn replace_link(&mut self, node: u32, level: u8, other: u32, link: Link<u32>) -> Result<(), Infallible> {
        self.change_link(node, level, Some(other), Some(link));
        Ok(())
    }

    fn level(&self, node: u32) -> Result<u8, Infallible> {
        Ok(self.above.levels(self.chain(node)))
    }

    fn between(&self, a: u32, b: u32) -> Result<f32, Infallible> {
        Ok(match &self.few {
            _ if self.exact => {
                let (vector, unit) = self.vectors.get(a);
                self.exact_score(vector, unit, b)
            }
            Some(few) => few.between(self.scored(a), self.scored(b)),
            None => {
                let [a, b] = [a, b].map(|node| self.codes.get_for_links(node));
                code::score(self.scores_of, &self.kernels, a, b)
            }
        })
    }

    fn first_within(
        &self,
        node: u32,
        score: f32,
        others: &[u32],
        is_left_out: impl Fn(usize) -> bool,
    ) -> Result<Option<usize>, Infallible> {
        let query = self.query(node);
        for (at, other) in others.iter().enumerate() {
            if !is_left_out(at) && self.score(&query, *other)? <= score {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn is_copy(&self, a: u32, b: u32) -> Result<bool, Infallible> {
        Ok(match self.exact {
            true => self.vectors.get(a).0 == self.vectors.get(b).0,
            false => self.codes.record(a) == self.codes.record(b),
        })
    }
}
