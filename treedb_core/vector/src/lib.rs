//! Vector search that TreeDB's two stores share: the native one and PostgreSQL's relation files.
//!
//! Everything here works on slices and on a small trait of a store of nodes; it knows neither files nor Postgres.
//!
//! | module | what it holds |
//! |---|---|
//! | [`memory`] | a graph in memory: records of links and codes, vectors beside them, exact re-ranking |
//! | [`graph`] | the graph: search, insert, delete, over any store of nodes |
//! | [`element`] | the types of elements |
//! | [`code`] | vectors as codes of 8 bits, distances between codes |
//! | [`centre`] | what codes of vectors that are much alike are about |
//! | [`few_bits`] | vectors as codes of one to four bits, distances from these codes |
//! | [`neighbour`] | codes of a few bits of the vectors that a node links to, scores estimated from them |
//! | [`metric`] | distances between vectors, and what a vector must be |
//! | [`nearest`] | the nearest of many things |
//! | [`kernel`] | sums over two slices, by the instructions that the processor has |

pub mod centre;
pub mod code;
pub mod element;
pub mod few_bits;
pub mod graph;
pub mod kernel;
pub mod memory;
pub mod metric;
pub mod nearest;
pub mod neighbour;
