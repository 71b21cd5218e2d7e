//! `hostInfo`: a few facts about the machine.

use bson::{DateTime, rawdoc};
use treedb_storage::disk::memory_limit;

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let cores =
        std::thread::available_parallelism().map_or(1, |n| i32::try_from(n.get()).unwrap_or(i32::MAX));
    let memory = memory_mib();
    // That of the control group, as in a container.
    let limit = i64::try_from(memory_limit() >> 20).unwrap_or(i64::MAX);
    let release = read("/etc/os-release");
    let (name, version) = (setting(&release, "NAME"), setting(&release, "VERSION_ID"));
    let page_size = i64::try_from(rustix::param::page_size()).unwrap_or(0);
    Ok(rawdoc! {
        "system": {
            "currentTime": DateTime::now(),
            "hostname": hostname(),
            "cpuAddrSize": i32::try_from(usize::BITS).unwrap_or(64),
            "memSizeMB": memory,
            "memLimitMB": limit.min(memory),
            "numCores": cores,
            "numCoresAvailableToProcess": cores,
            "cpuArch": std::env::consts::ARCH,
            "numaEnabled": false,
        },
        "os": {
            "type": "Linux",
            "name": name.unwrap_or("Linux"),
            "version": version.unwrap_or_default(),
        },
        "extra": {
            "versionString": read("/proc/version").trim(),
            "kernelVersion": read("/proc/sys/kernel/osrelease").trim(),
            "pageSize": page_size,
            "numPages": if page_size > 0 { (memory << 20) / page_size } else { 0 },
        },
    })
}

/// A file of the system; empty if there is none.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The value of a line `NAME="value"`.
fn setting<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.trim_matches('"'))
}

/// The memory of the machine.
fn memory_mib() -> i64 {
    let info = read("/proc/meminfo");
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse::<i64>().ok());
    kib.unwrap_or(0) >> 10
}

/// The machine's host name.
pub(crate) fn hostname() -> String {
    let name = read("/proc/sys/kernel/hostname");
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
