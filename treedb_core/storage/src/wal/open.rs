//! Opening a log: find the end, make it durable, continue after it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::append::{Tail, first_size};
use super::clean_shutdown;
use super::files::Files;
use super::frame::{self, Kind, Lsn};
use super::group::Group;
use super::log::{Log, LogOptions, Sync, lock};
use super::recovery::Recovery;
use super::scan::{ScanResult, scan};
use super::segment::{AHEAD, FIRST_FRAME, Header, Segment, UNFINISHED, name, parse};
use crate::disk::Disk;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::{Error, Result};

/// See [`Log::open`].
pub(super) fn open(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions) -> Result<(Log, Recovery)> {
    let d = disk.as_ref();
    d.create_dir(dir)?;
    let names = d.list(dir)?;
    let firsts: Vec<Lsn> = names.iter().filter_map(|n| parse(n, ".wal")).collect();
    let spares: Vec<Lsn> = names.iter().filter_map(|n| parse(n, ".spare")).collect();
    if firsts.is_empty() && (options.must_exist || options.applied > Lsn::NONE) {
        let expected = format!("a command log with the commits since the checkpoint at {}", options.applied);
        return Err(Error::damaged(dir, 0, expected, "no segment of it"));
    }
    if !names.is_empty() {
        // A process that died may have left names that only the system knows; what follows builds on them.
        d.sync_dir(dir)?;
    }
    for unfinished in [UNFINISHED, AHEAD] {
        if names.iter().any(|n| n == unfinished) {
            d.remove(&dir.join(unfinished))?;
        }
    }
    let mut files = Files::default();
    for first in spares {
        files.adopt(d, dir, first, &options)?;
    }
    let (tail, files, mut recovery, clean) = if firsts.is_empty() {
        let header = Header {
            generation: 1,
            first: Lsn(1),
            size: first_size(&options),
            durable: Lsn::NONE,
            previous: Lsn::NONE,
        };
        let segment = files.make(d, dir, header, options.segment_bytes)?;
        files.push(&segment, 0, 0);
        (
            Tail::new(segment, FIRST_FRAME, 1, Lsn::NONE),
            files,
            Recovery::new(Vec::new(), Lsn::NONE, Lsn::NONE),
            false,
        )
    } else {
        resume(d, dir, &options, scan(d, dir, &firsts, options.applied)?, files)?
    };
    recovery.keys.clone_from(&options.keys);
    let durable = AtomicU64::new(tail.next - 1);
    let log = Log {
        disk,
        dir: dir.to_path_buf(),
        options,
        tail: Mutex::new(tail),
        files: Mutex::new(files),
        group: Mutex::new(Group::default()),
        durable,
        groups: AtomicU64::new(0),
        wanting: AtomicBool::new(false),
        failure: OnceLock::new(),
    };
    if clean {
        clean_shutdown::erase(&lock(&log.tail).segment)?;
        // Durable before any other frame, so that a log cut short by a crash never ends in `closed`.
        let lsn = log.append_kind(&[], Sync::Durable, Kind::Opened)?;
        log.wait(lsn)?;
    }
    Ok((log, recovery))
}

/// Makes the log that was found durable and decides where the next frame goes. The flag is true if it goes into the
/// last segment, after its `closed` frame.
fn resume(
    disk: &dyn Disk,
    dir: &Path,
    options: &LogOptions,
    found: ScanResult,
    mut files: Files,
) -> Result<(Tail, Files, Recovery, bool)> {
    // A crash of the process alone may have left frames that only the system knows.
    for (segment, _) in &found.kept {
        segment.file.sync()?;
    }
    if !found.beyond.is_empty() {
        for first in &found.beyond {
            disk.remove(&dir.join(name(*first)))?;
        }
        // Before the numbers they use are given out again.
        disk.sync_dir(dir)?;
    }
    let with_data = if found.data > options.applied { found.kept.clone() } else { Vec::new() };
    let recovery = Recovery::new(with_data, options.applied, found.last);
    let lost = found.last < options.applied;
    let mut old = found.old;
    let Some((last, end)) = found.kept.last().cloned() else {
        return Err(Error::Invalid("the command log has no segment".into()));
    };
    let clean = found.closed && !lost;
    let tail = if clean {
        keep(&mut files, &found.kept);
        Tail::new(last, end, found.last.0 + 1, found.data)
    } else if lost {
        // The checkpoint is ahead of what the crash left of the log: none of it is needed.
        old.extend(found.kept.iter().map(|(s, _)| s.header.first));
        let first = Lsn(options.applied.0 + 1);
        let header = after(options, &found.generation, first, options.applied, Lsn::NONE);
        let segment = files.make(disk, dir, header, options.segment_bytes)?;
        files.push(&segment, 0, 0);
        Tail::new(segment, FIRST_FRAME, first.0, options.applied)
    } else {
        // Remains of lost frames may follow the end: only the seal is appended there.
        let seal = Lsn(found.last.0 + 1);
        let first = Lsn(seal.0 + 1);
        let header = after(options, &found.generation, first, found.last, last.header.first);
        let segment = files.make(disk, dir, header, options.segment_bytes)?;
        let bytes = frame::header(last.header.generation, seal, found.last, Kind::Sealed, &[]);
        last.file.write_at(&bytes, end)?;
        last.file.sync()?;
        keep(&mut files, &found.kept);
        files.push(&segment, end - FIRST_FRAME, last.room());
        Tail::new(segment, FIRST_FRAME, first.0, found.data)
    };
    if !old.is_empty() {
        for first in old {
            files.retire(disk, dir, first, options)?;
        }
        // Before a spare is used: a file must not come back under the name it had as a segment.
        disk.sync_dir(dir)?;
    }
    Ok((tail, files, recovery, clean))
}

/// The header of the segment in which the log continues after a crash.
fn after(options: &LogOptions, generation: &u64, first: Lsn, durable: Lsn, previous: Lsn) -> Header {
    let size = first_size(options);
    Header { generation: generation + 1, first, size, durable, previous }
}

fn keep(files: &mut Files, kept: &[(Arc<Segment>, u64)]) {
    let (mut used, mut size) = (0, 0);
    for (segment, end) in kept {
        files.push(segment, used, size);
        (used, size) = (end - FIRST_FRAME, segment.room());
    }
}
