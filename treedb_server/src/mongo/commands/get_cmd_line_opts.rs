//! `getCmdLineOpts`: what scripts look for in it, by MongoDB's names: where the files are, the replica set, whether users have to authenticate,
//! and test commands, by which the drivers' own tests decide what to run. The command line itself is not disclosed.

use bson::raw::cstr;
use bson::rawdoc;

use super::Result;
use super::request::Request;
use crate::mongo::topology::Topology;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let context = request.context;
    let mut parsed = rawdoc! { "storage": { "dbPath": &*context.dir.to_string_lossy() } };
    if let Topology::Member(member) = &context.topology {
        parsed.append(cstr!("replication"), rawdoc! { "replSet": member.set() });
    }
    if context.access.is_required() {
        parsed.append(cstr!("security"), rawdoc! { "authorization": "enabled" });
    }
    if context.fail_points.is_some() {
        parsed.append(cstr!("setParameter"), rawdoc! { "enableTestCommands": "1" });
    }
    Ok(rawdoc! { "argv": ["treedb"], "parsed": parsed })
}
