//! The nearest nodes to a query.

use super::pool::Pool;
use super::store::{Nodes, Visited};

/// What a search needs besides the store; kept from one search to the next, it allocates nothing.
#[derive(Debug)]
pub struct Scratch<N, V> {
    /// What was found.
    pub pool: Pool<N>,
    /// How many nodes the search has compared with the query.
    pub compared: usize,
    visited: V,
    links: Vec<N>,
}

impl<N: Copy, V: Default> Default for Scratch<N, V> {
    fn default() -> Self {
        Scratch { pool: Pool::default(), compared: 0, visited: V::default(), links: Vec::new() }
    }
}

/// Finds the nearest nodes to a query: at most `ef`, in [`Scratch::pool`].
pub fn search<S: Nodes>(
    store: &S,
    query: &S::Query<'_>,
    ef: usize,
    scratch: &mut Scratch<S::Node, impl Visited<S::Node>>,
) -> Result<(), S::Error> {
    scratch.pool.reset(ef.max(1));
    let Some((entry, top)) = store.entry()? else { return Ok(()) };
    let mut nearest = (store.score(query, entry)?, entry);
    scratch.compared = 1;
    for level in (1..=top).rev() {
        nearest = descend(store, query, nearest, level, scratch)?;
    }
    in_level(store, query, &[nearest], 0, ef, scratch)
}

/// The nearest node of a level that is reached by going to ever nearer ones from `nearest`.
pub(super) fn descend<S: Nodes, V: Visited<S::Node>>(
    store: &S,
    query: &S::Query<'_>,
    mut nearest: (f32, S::Node),
    level: u8,
    scratch: &mut Scratch<S::Node, V>,
) -> Result<(f32, S::Node), S::Error> {
    loop {
        let from = nearest.1;
        store.links(from, level, &mut scratch.links)?;
        scratch.compared += scratch.links.len();
        for node in &scratch.links {
            store.prefetch(*node);
        }
        for node in &scratch.links {
            let score = store.score(query, *node)?;
            if score < nearest.0 {
                nearest = (score, *node);
            }
        }
        if nearest.1 == from {
            return Ok(nearest);
        }
    }
}

/// Finds the nearest `ef` nodes of a level from these on.
pub(super) fn in_level<S: Nodes, V: Visited<S::Node>>(
    store: &S,
    query: &S::Query<'_>,
    from: &[(f32, S::Node)],
    level: u8,
    ef: usize,
    scratch: &mut Scratch<S::Node, V>,
) -> Result<(), S::Error> {
    let Scratch { pool, visited, links, compared } = scratch;
    pool.reset(ef.max(1));
    visited.clear();
    for (score, node) in from {
        if visited.insert(*node) {
            pool.insert(*score, *node);
        }
    }
    while let Some(node) = pool.expand() {
        store.links(node, level, links)?;
        // All nodes are asked for before the first of them is needed.
        links.retain(|node| {
            let new = visited.insert(*node);
            if new {
                store.prefetch(*node);
            }
            new
        });
        *compared += links.len();
        if let Some(upcoming) = pool.upcoming() {
            store.prefetch_links(upcoming);
        }
        for node in links.iter() {
            let score = store.score(query, *node)?;
            pool.insert(score, *node);
        }
    }
    Ok(())
}
