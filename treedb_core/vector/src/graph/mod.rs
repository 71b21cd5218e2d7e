//! A navigable graph of several levels (HNSW, Malkov and Yashunin 2016) over any store of nodes.
//!
//! Every node is in level 0, and each level has about a sixteenth of the nodes of the one below. A search descends from the
//! entry point greedily, and in level 0 keeps the best `ef` nodes that it has met, expanding the nearest one that it has not
//! expanded, until all of them are. It can go on from there to the next best nodes, until it has seen the whole graph.
//!
//! Invariants:
//! - Links go both ways. So a node can be removed by looking at the nodes that it links to, and no link to a node that
//!   does not exist is left anywhere.
//! - In level 0 the first link of every node but the root is to its parent, and parents lead to the root. These links are
//!   never given up, so that every node is reachable, whatever comes and goes, however many vectors are the same.
//! - A node that is linked in a level is linked in level 0 too, so a search that reaches it can go on in the levels below.
//!
//! They hold whenever [`NodesMut::settle`] is called, which is after each change of at most four nodes.
//!
//! | module | what it holds |
//! |---|---|
//! | `store` | what the graph algorithms require of a node store |
//! | `search` | the nearest nodes to a query |
//! | `pool` | the best nodes that a search has met |
//! | `walk` | a search that goes on for as long as more nodes are asked for, by estimates of scores |
//! | `insert` | linking a new node |
//! | `choice` | which links a node gets, and which one goes |
//! | `copies` | nodes with the same vector |
//! | `delete` | removing a node and linking its neighbours to each other |
//! | `check` | whether a graph is what it should be |

mod check;
mod choice;
mod copies;
mod delete;
mod insert;
mod pool;
mod search;
mod store;
mod walk;

pub use check::{Damage, check};
pub use choice::{Ranking, Spare, spare_links};
pub use copies::limit_tied;
pub use delete::delete;
pub use insert::{Limits, Plan, insert, level_of, link, plan};
pub use pool::{Found, Pool};
pub use search::{Part, Scratch, TIED, search, search_keeping, search_part, search_to_link};
pub use store::{Estimate, Hashed, Link, Nodes, NodesMut, Stamps, Visited};
pub use walk::{Scored, Walk};
