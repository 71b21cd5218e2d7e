//! Servers for documents, in processes of their own, and clients for them.

mod client;
mod process;
mod wire;
mod ycsb;

pub use client::{Client, Protocol};
pub use process::Process;
pub use ycsb::{Done, RECORDS, Workload, load, run};
