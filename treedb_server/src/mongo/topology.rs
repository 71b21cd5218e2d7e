//! How the server presents itself to drivers: as a standalone, or as a replica set of one member.
//!
//! Drivers use transactions and retryable writes only with replica sets. They connect to a member of a replica set at the
//! address that it reports (`me`, `hosts`) instead of the one they were configured with, so that a tunnel needs
//! `directConnection=true`, and retryable writes cost a record each: this is why a replica set is opt-in. The server
//! executes the same commands either way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bson::oid::ObjectId;
use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, DateTime, RawDocumentBuf, Timestamp, rawdoc};
use treedb_collections::Database;

use super::error::CommandError;

/// The election that made the only member primary: it never changes, as the primary does not.
const ELECTION: [u8; 12] = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1];

/// How the server presents itself to drivers.
#[derive(Debug)]
pub(crate) enum Topology {
    Standalone,
    Member(Member),
}

/// The only member of a replica set.
#[derive(Debug)]
pub(crate) struct Member {
    set: String,
    address: String,
    /// The greatest time that was reported: times never decrease.
    reported: AtomicU64,
}

impl Topology {
    /// The member of the replica set `set` that clients reach at `address`; a standalone without a set.
    pub(crate) fn new(set: Option<String>, address: String) -> Self {
        match set {
            Some(set) => Topology::Member(Member { set, address, reported: AtomicU64::new(0) }),
            None => Topology::Standalone,
        }
    }

    /// Adds the fields of a replica set to the reply of `hello`.
    pub(crate) fn append_to_hello(&self, reply: &mut RawDocumentBuf) {
        let Topology::Member(member) = self else { return };
        let address = member.address.as_str();
        reply.append(cstr!("setName"), member.set.as_str());
        reply.append(cstr!("setVersion"), 1);
        reply.append(cstr!("secondary"), false);
        reply.append(cstr!("hosts"), rawdoc_array(address));
        reply.append(cstr!("primary"), address);
        reply.append(cstr!("me"), address);
        reply.append(cstr!("electionId"), ObjectId::from_bytes(ELECTION));
        let now = Timestamp { time: seconds(), increment: 1 };
        reply.append(
            cstr!("lastWrite"),
            rawdoc! { "opTime": { "ts": now, "t": 1_i64 }, "lastWriteDate": DateTime::now() },
        );
    }

    /// Adds the cluster time to a reply: the time of the last change, at which a change stream can start.
    pub(crate) fn append_cluster_time(
        &self,
        database: &Database,
        reply: &mut RawDocumentBuf,
    ) -> Result<(), CommandError> {
        let Topology::Member(member) = self else { return Ok(()) };
        let time = member.last_change(database)?;
        // There is no key to sign it with, and no member that would verify the signature.
        let hash = Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 20] };
        reply.append(
            cstr!("$clusterTime"),
            rawdoc! { "clusterTime": time, "signature": { "hash": hash, "keyId": 0_i64 } },
        );
        reply.append(cstr!("operationTime"), time);
        Ok(())
    }
}

impl Member {
    /// The name of the set.
    pub(crate) fn set(&self) -> &str {
        &self.set
    }

    /// Where clients reach the member.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The time of the last change, which never decreases.
    pub(crate) fn last_change(&self, database: &Database) -> Result<Timestamp, CommandError> {
        let last = database.operation_time()?.unwrap_or(Timestamp { time: seconds(), increment: 1 });
        let last = u64::from(last.time) << 32 | u64::from(last.increment);
        let time = last.max(self.reported.fetch_max(last, Ordering::Relaxed));
        Ok(Timestamp { time: (time >> 32) as u32, increment: time as u32 })
    }
}

fn rawdoc_array(address: &str) -> bson::RawArrayBuf {
    let mut hosts = bson::RawArrayBuf::new();
    hosts.push(address);
    hosts
}

fn seconds() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}
