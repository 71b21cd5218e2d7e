//! Servers for documents, in processes of their own, and clients for them.

mod client;
mod done;
#[cfg(feature = "mongo-driver")]
mod driver;
mod many;
mod process;
mod record;
mod runtime;
mod wire;
mod ycsb;

pub(crate) use client::{DRIVER, Protocol};
pub(crate) use done::{Beginning, Done, nanos};
pub(crate) use many::{count, inserts, open, reads};
pub(crate) use process::{Process, Setup};
pub(crate) use runtime::runtime;
pub(crate) use wire::Wire;
pub(crate) use ycsb::{Choice, Length, RECORDS, Run, Workload, load, run};
