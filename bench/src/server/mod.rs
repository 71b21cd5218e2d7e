//! Servers for documents, in processes of their own, and clients for them.

mod client;
mod process;
mod wire;
mod ycsb;

pub(crate) use client::Protocol;
pub(crate) use process::Process;
pub(crate) use ycsb::{Done, RECORDS, Workload, load, open, reads, run};
