//! `hello`, and its legacy name `isMaster`.
//!
//! [`crate::mongo::topology`] adds the fields of a replica set, [`super::sasl`] those of authentication. With `topologyVersion` and
//! `maxAwaitTimeMS` it is answered when that time is over, since nothing changes: [`crate::mongo::streaming`].

use bson::raw::cstr;
use bson::{DateTime, RawDocumentBuf, rawdoc};
use treedb_query::doc::MAX_DOCUMENT_SIZE;

use super::Result;
use super::request::Request;
use super::sasl;
use crate::config::MAX_MESSAGE_BYTES;
use crate::mongo::compression::Compressors;
use crate::mongo::{sessions, streaming};

/// Statements in one write command.
pub(super) const MAX_WRITE_BATCH: usize = 100_000;
/// That of MongoDB 8.0: drivers choose the form of commands by it.
pub(super) const MAX_WIRE_VERSION: i32 = 25;
/// The lifetime of sessions in minutes. Without it drivers assume that there are no sessions.
pub(super) const SESSION_MINUTES: i32 = sessions::TIMEOUT_MINUTES.cast_signed();

pub(super) fn run(request: &Request<'_>) -> Result {
    greeting(request, "isWritablePrimary")
}

pub(super) fn run_legacy(request: &Request<'_>) -> Result {
    greeting(request, "ismaster")
}

fn greeting(request: &Request<'_>, primary: &str) -> Result<RawDocumentBuf> {
    request.refuse_options()?;
    if let Some(client) = request.body().get("client")?.and_then(|client| client.as_document()) {
        request.session.introduce(client);
    }
    streaming::check_hello(request.body())?;
    let mut reply = RawDocumentBuf::new();
    if request.body().get("helloOk")?.and_then(|value| value.as_bool()) == Some(true) {
        reply.append(cstr!("helloOk"), true);
    }
    if primary == "ismaster" {
        reply.append(cstr!("ismaster"), true);
    } else {
        reply.append(cstr!("isWritablePrimary"), true);
    }
    let rest = rawdoc! {
        "maxBsonObjectSize": size(MAX_DOCUMENT_SIZE),
        "maxMessageSizeBytes": size(MAX_MESSAGE_BYTES),
        "maxWriteBatchSize": size(MAX_WRITE_BATCH),
        "localTime": DateTime::now(),
        "logicalSessionTimeoutMinutes": SESSION_MINUTES,
        "connectionId": request.session.id,
        "minWireVersion": 0,
        "maxWireVersion": MAX_WIRE_VERSION,
        "readOnly": false,
    };
    for element in &rest {
        let (name, value) = element?;
        reply.append(name, value);
    }
    request.context.topology.append_to_hello(&mut reply);
    reply.append(cstr!("topologyVersion"), streaming::topology_version(request.context));
    if let Some(wanted) = request.body().get("compression")?.and_then(|wanted| wanted.as_array()) {
        let (agreed, names) = request.context.compressors.agreed(wanted);
        request.session.set_compressors(agreed);
        if agreed != Compressors::NONE {
            reply.append(cstr!("compression"), names);
        }
    }
    sasl::append_to_hello(request, &mut reply)?;
    Ok(reply)
}

/// A limit as the wire's int32.
pub(super) fn size(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}
