//! `replSetGetStatus` and `replSetGetConfig`: the replica set of one member that the server presents itself as.

use bson::raw::cstr;
use bson::{DateTime, RawArrayBuf, rawdoc};

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;
use crate::mongo::topology::{Member, Topology};

/// The member; `NoReplicationEnabled` for a standalone, as MongoDB answers.
fn member<'r>(request: &Request<'r>) -> std::result::Result<&'r Member, CommandError> {
    match &request.context.topology {
        Topology::Member(member) => Ok(member),
        Topology::Standalone => Err(CommandError::new(
            ProtocolCode::NoReplicationEnabled,
            "not running with --replSet: start the server with --replica-set",
        )),
    }
}

pub(super) fn status(request: &Request<'_>) -> Result {
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "initialSync" => drop(arg.integer()?),
            _ => arg.ignored_or_unknown()?,
        }
    }
    let member = member(request)?;
    let last = member.last_change(&request.context.database)?;
    let date = DateTime::from_millis(i64::from(last.time) * 1000);
    let optime = rawdoc! { "ts": last, "t": 1_i64 };
    let mut members = RawArrayBuf::new();
    members.push(rawdoc! {
        "_id": 0,
        "name": member.address(),
        "health": 1.0,
        "state": 1,
        "stateStr": "PRIMARY",
        "uptime": i32::try_from(request.context.started.elapsed().as_secs()).unwrap_or(i32::MAX),
        "optime": optime.clone(),
        "optimeDate": date,
        "lastHeartbeatMessage": "",
        "electionTime": bson::Timestamp { time: 0, increment: 1 },
        "configVersion": 1,
        "configTerm": 1,
        "self": true,
    });
    Ok(rawdoc! {
        "set": member.set(),
        "date": DateTime::now(),
        "myState": 1,
        "term": 1_i64,
        "heartbeatIntervalMillis": 2_000_i64,
        "majorityVoteCount": 1,
        "writeMajorityCount": 1,
        "votingMembersCount": 1,
        "writableVotingMembersCount": 1,
        "optimes": {
            "lastCommittedOpTime": optime.clone(),
            "readConcernMajorityOpTime": optime.clone(),
            "appliedOpTime": optime.clone(),
            "durableOpTime": optime,
            "lastAppliedWallTime": date,
            "lastDurableWallTime": date,
        },
        "members": members,
    })
}

pub(super) fn config(request: &Request<'_>) -> Result {
    let mut commitment = false;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "commitmentStatus" => commitment = arg.bool()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let member = member(request)?;
    let mut reply = rawdoc! {
        "config": {
            "_id": member.set(),
            "version": 1,
            "term": 1_i64,
            "members": [{
                "_id": 0,
                "host": member.address(),
                "arbiterOnly": false,
                "buildIndexes": true,
                "hidden": false,
                "priority": 1.0,
                "tags": {},
                "secondaryDelaySecs": 0_i64,
                "votes": 1,
            }],
            "protocolVersion": 1_i64,
            "writeConcernMajorityJournalDefault": true,
            "settings": {},
        },
    };
    if commitment {
        // The only configuration is that of the start.
        reply.append(cstr!("commitmentStatus"), true);
    }
    Ok(reply)
}
