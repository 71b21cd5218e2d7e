//! The nearest nodes to a query.

use super::choice::Ranking;
use super::pool::Pool;
use super::store::{Nodes, Visited};

/// Nodes that are exactly as far which a search for what to link a node to keeps: copies of one vector, however many there
/// are, must not hide what lies behind them.
pub const TIED: usize = 32;

/// What a search needs besides the store; kept from one search to the next, it allocates nothing.
#[derive(Debug)]
pub struct Scratch<N, V> {
    /// What was found.
    pub pool: Pool<N>,
    /// How many nodes the search has compared with the query.
    pub compared: usize,
    /// The nodes that it has met: of use to others between searches.
    pub visited: V,
    pub(super) links: Vec<N>,
    pub(super) scores: Vec<f32>,
    /// What linking the node that was searched for needs.
    pub ranking: Ranking<N>,
}

impl<N: Copy, V: Default> Default for Scratch<N, V> {
    fn default() -> Self {
        let (pool, ranking) = (Pool::default(), Ranking::default());
        let (links, scores) = (Vec::new(), Vec::new());
        Scratch { pool, compared: 0, visited: V::default(), links, scores, ranking }
    }
}

/// Which part of a search is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it: it keeps nothing that going on would need.
    Whole,
    /// The first one: others may follow.
    First,
    /// Another one, of the same query and the same scratch, for more nodes: nothing is compared nor expanded again.
    Next,
}

/// Does a part of a search: finds the nearest nodes, at most `ef` with those of the parts before, in [`Scratch::pool`].
/// [`Scratch::compared`] is that of this part.
pub fn search_part<S: Nodes>(
    store: &S,
    query: &S::Query<'_>,
    ef: usize,
    part: Part,
    scratch: &mut Scratch<S::Node, impl Visited<S::Node>>,
) -> Result<(), S::Error> {
    match part {
        Part::Whole => return search(store, query, ef, scratch),
        Part::First => {
            let Some(nearest) = begin(store, query, ef, scratch)? else { return Ok(()) };
            begin_level(store, &[nearest], (ef, ef), scratch);
            scratch.pool.keep_others();
        }
        Part::Next => {
            scratch.compared = 0;
            scratch.pool.widen(ef);
        }
    }
    expand_all(store, query, 0, scratch)
}

/// Finds the nearest nodes to a query: at most `ef`, in [`Scratch::pool`].
pub fn search<S: Nodes>(
    store: &S,
    query: &S::Query<'_>,
    ef: usize,
    scratch: &mut Scratch<S::Node, impl Visited<S::Node>>,
) -> Result<(), S::Error> {
    search_keeping(store, query, ef, ef, scratch)
}

/// Finds the nearest nodes to a query: at most `keep`, if that is more than `ef`, of which only the nearest `ef` are expanded as soon as
/// there are so many. Where that is good enough, it takes less time than a search for the nearest `keep`.
pub fn search_keeping<S: Nodes>(
    store: &S,
    query: &S::Query<'_>,
    ef: usize,
    keep: usize,
    scratch: &mut Scratch<S::Node, impl Visited<S::Node>>,
) -> Result<(), S::Error> {
    match begin(store, query, ef, scratch)? {
        Some(nearest) => {
            begin_level(store, &[nearest], (keep.max(ef), ef), scratch);
            expand_all(store, query, 0, scratch)
        }
        None => Ok(()),
    }
}

/// Finds the nearest nodes to a query as a search for what to link a new node to does, at most `ef`, in [`Scratch::pool`].
pub fn search_to_link<S: Nodes>(
    store: &S,
    query: &S::Query<'_>,
    ef: usize,
    scratch: &mut Scratch<S::Node, impl Visited<S::Node>>,
) -> Result<(), S::Error> {
    match begin(store, query, ef, scratch)? {
        Some(nearest) => in_level(store, query, &[nearest], 0, ef, scratch),
        None => Ok(()),
    }
}

/// Descends to level 0: the node to begin at there. `None` if there is none.
fn begin<S: Nodes>(
    store: &S,
    query: &S::Query<'_>,
    ef: usize,
    scratch: &mut Scratch<S::Node, impl Visited<S::Node>>,
) -> Result<Option<(f32, S::Node)>, S::Error> {
    scratch.pool.reset(ef.max(1));
    scratch.compared = 0;
    let Scratch { links, scores, visited, compared, .. } = scratch;
    descend_all(store, query, (links, scores), visited, compared)
}

/// The node that the descent through all levels above level 0 leads to; `None` if there are no nodes. `compared` counts the nodes
/// that were compared with the query.
pub(super) fn descend_all<S: Nodes>(
    store: &S,
    query: &S::Query<'_>,
    (links, scores): (&mut Vec<S::Node>, &mut Vec<f32>),
    met: &mut impl Visited<S::Node>,
    compared: &mut usize,
) -> Result<Option<(f32, S::Node)>, S::Error> {
    let Some((entry, top)) = store.entry()? else { return Ok(None) };
    let mut nearest = (store.score(query, entry)?, entry);
    *compared += 1;
    met.clear();
    for level in (1..=top).rev() {
        nearest = descend(store, query, nearest, level, (&mut *links, &mut *scores), met, compared)?;
    }
    Ok(Some(nearest))
}

/// The nearest node of a level that is reached by going to ever nearer ones from `nearest`. Nodes that have been `met`, in this level or in
/// those above, are no nearer than that: many links lead to them.
pub(super) fn descend<S: Nodes>(
    store: &S,
    query: &S::Query<'_>,
    mut nearest: (f32, S::Node),
    level: u8,
    (links, scores): (&mut Vec<S::Node>, &mut Vec<f32>),
    met: &mut impl Visited<S::Node>,
    compared: &mut usize,
) -> Result<(f32, S::Node), S::Error> {
    loop {
        let from = nearest.1;
        store.new_links_above(query, (from, level), (&mut *links, &mut *scores), met)?;
        *compared += links.len();
        for (node, score) in links.iter().zip(scores.iter()) {
            if *score < nearest.0 {
                nearest = (*score, *node);
            }
        }
        if nearest.1 == from {
            return Ok(nearest);
        }
    }
}

/// Finds the nearest `ef` nodes of a level from these on, but of those that are exactly as far only [`TIED`].
pub(super) fn in_level<S: Nodes, V: Visited<S::Node>>(
    store: &S,
    query: &S::Query<'_>,
    from: &[(f32, S::Node)],
    level: u8,
    ef: usize,
    scratch: &mut Scratch<S::Node, V>,
) -> Result<(), S::Error> {
    begin_level(store, from, (ef, ef), scratch);
    scratch.pool.limit_tied(TIED);
    expand_all(store, query, level, scratch)
}

/// Prepares for the search of a level from these nodes on, which keeps so many nodes and expands so many.
fn begin_level<S: Nodes>(
    store: &S,
    from: &[(f32, S::Node)],
    (most, wide): (usize, usize),
    scratch: &mut Scratch<S::Node, impl Visited<S::Node>>,
) {
    scratch.pool.reset_wide(most.max(1), wide.max(1));
    if store.tied_are_copies() {
        scratch.pool.count_tied_once();
    }
    scratch.visited.clear();
    for (score, node) in from {
        if scratch.visited.insert(*node) {
            scratch.pool.insert(*score, *node);
        }
    }
}

/// Expands the nodes of the pool, the nearest first, until all of them are.
fn expand_all<S: Nodes, V: Visited<S::Node>>(
    store: &S,
    query: &S::Query<'_>,
    level: u8,
    scratch: &mut Scratch<S::Node, V>,
) -> Result<(), S::Error> {
    let Scratch { pool, visited, links, scores, compared, .. } = scratch;
    while let Some(node) = pool.expand() {
        store.links(node, level, links)?;
        visited.keep_new(links);
        *compared += links.len();
        if let Some(upcoming) = pool.upcoming() {
            store.prefetch_links(upcoming);
        }
        store.scores(query, links, scores)?;
        pool.insert_all(links, scores, |next| store.prefetch_links(next));
    }
    Ok(())
}
