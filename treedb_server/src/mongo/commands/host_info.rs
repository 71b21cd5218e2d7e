//! `hostInfo`: a few facts about the machine.

use bson::{DateTime, rawdoc};

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let cores =
        std::thread::available_parallelism().map_or(1, |n| i32::try_from(n.get()).unwrap_or(i32::MAX));
    Ok(rawdoc! {
        "system": {
            "currentTime": DateTime::now(),
            "hostname": hostname(),
            "cpuAddrSize": i32::try_from(usize::BITS).unwrap_or(64),
            "numCores": cores,
            "cpuArch": std::env::consts::ARCH,
        },
        "os": { "type": std::env::consts::OS, "name": std::env::consts::OS, "version": "" },
        "extra": {},
    })
}

/// The machine's host name.
pub(crate) fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
