//! Opening a log: finds the end, makes the log durable up to it, and continues after it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::append::{Appender, first_size};
use super::clean_shutdown;
use super::files::Files;
use super::frame::{self, Kind, Lsn};
use super::group::Group;
use super::log::{Log, LogOptions, Sync, lock};
use super::recovery::Recovery;
use super::scan::{ScanResult, scan};
use super::segment::{AHEAD, FIRST_FRAME, Header, Segment, UNFINISHED, name, parse};
use super::timings::Timer;
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
        // A process that crashed may have left directory entries that are not durable; the following steps
        // rely on them.
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
    let (appender, files, mut recovery, clean) = if firsts.is_empty() {
        let header = Header {
            generation: 1,
            first: Lsn(1),
            size: first_size(&options),
            durable: Lsn::NONE,
            previous: Lsn::NONE,
        };
        let segment = files.create_segment(d, dir, header, options.segment_bytes)?;
        files.push(&segment, 0, 0);
        (
            Appender::new(segment, FIRST_FRAME, 1, Lsn::NONE),
            files,
            Recovery::new(Vec::new(), Lsn::NONE, Lsn::NONE),
            false,
        )
    } else {
        resume(d, dir, &options, scan(d, dir, &firsts, options.applied)?, files)?
    };
    recovery.keys.clone_from(&options.keys);
    let durable = AtomicU64::new(appender.next - 1);
    let log = Log {
        disk,
        dir: dir.to_path_buf(),
        options,
        appender: Mutex::new(appender),
        files: Mutex::new(files),
        group: Mutex::new(Group::default()),
        durable,
        flushes: Timer::default(),
        next_wanted: AtomicBool::new(false),
        failure: OnceLock::new(),
    };
    if clean {
        clean_shutdown::erase(&lock(&log.appender).segment)?;
        // Durable before any other frame, so that a log that a crash truncates never ends in `closed`.
        let lsn = log.append_kind(&[], Sync::Durable, Kind::Opened)?;
        log.wait(lsn)?;
    }
    Ok((log, recovery))
}

/// Makes the log that was found durable and decides where the next frame goes. The flag is true if that is in
/// the last segment, after its `closed` frame.
fn resume(
    disk: &dyn Disk,
    dir: &Path,
    options: &LogOptions,
    found: ScanResult,
    mut files: Files,
) -> Result<(Appender, Files, Recovery, bool)> {
    // After a crash of the process alone, frames may be in the operating system's memory only.
    for (segment, _) in &found.live {
        segment.file.sync()?;
    }
    if !found.after_end.is_empty() {
        for first in &found.after_end {
            disk.remove(&dir.join(name(*first)))?;
        }
        // Durable before their LSNs are used again.
        disk.sync_dir(dir)?;
    }
    let with_data = if found.data > options.applied { found.live.clone() } else { Vec::new() };
    let recovery = Recovery::new(with_data, options.applied, found.last);
    let behind_checkpoint = found.last < options.applied;
    let mut obsolete = found.obsolete;
    let Some((last, end)) = found.live.last().cloned() else {
        return Err(Error::Invalid("the command log has no segment".into()));
    };
    let clean = found.closed && !behind_checkpoint;
    let appender = if clean {
        register(&mut files, &found.live);
        Appender::new(last, end, found.last.0 + 1, found.data)
    } else if behind_checkpoint {
        // After a crash the log ends before the checkpoint: none of its frames are needed.
        obsolete.extend(found.live.iter().map(|(s, _)| s.header.first));
        let first = Lsn(options.applied.0 + 1);
        let header = next_header(options, &found.generation, first, options.applied, Lsn::NONE);
        let segment = files.create_segment(disk, dir, header, options.segment_bytes)?;
        files.push(&segment, 0, 0);
        Appender::new(segment, FIRST_FRAME, first.0, options.applied)
    } else {
        // Parts of lost frames may follow the end: only the seal is written there.
        let seal = Lsn(found.last.0 + 1);
        let first = Lsn(seal.0 + 1);
        let header = next_header(options, &found.generation, first, found.last, last.header.first);
        let segment = files.create_segment(disk, dir, header, options.segment_bytes)?;
        let bytes = frame::header(last.header.generation, seal, found.last, Kind::Sealed, &[]);
        last.file.write_at(&bytes, end)?;
        last.file.sync()?;
        register(&mut files, &found.live);
        files.push(&segment, end - FIRST_FRAME, last.allocated());
        Appender::new(segment, FIRST_FRAME, first.0, found.data)
    };
    if !obsolete.is_empty() {
        for first in obsolete {
            files.retire(disk, dir, first, options)?;
        }
        // Durable before a spare is used: a file must not reappear under the name that it had as a segment.
        disk.sync_dir(dir)?;
    }
    Ok((appender, files, recovery, clean))
}

/// The header of the segment in which the log continues after a crash.
fn next_header(options: &LogOptions, generation: &u64, first: Lsn, durable: Lsn, previous: Lsn) -> Header {
    let size = first_size(options);
    Header { generation: generation + 1, first, size, durable, previous }
}

/// Adds the segments found to the files of the log.
fn register(files: &mut Files, live: &[(Arc<Segment>, u64)]) {
    let (mut used, mut size) = (0, 0);
    for (segment, end) in live {
        files.push(segment, used, size);
        (used, size) = (end - FIRST_FRAME, segment.allocated());
    }
}
