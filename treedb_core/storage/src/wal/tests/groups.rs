//! Group commit, the limit of buffered bytes, and poisoning.

use treedb_testing::in_time;

use super::*;
use crate::Error;
use crate::disk::sim::{Fault, SimDisk};
use crate::wal::frame;

#[test]
fn frames_of_sixteen_threads_are_durable_once_and_in_order() {
    in_time(|| {
        const EACH: u64 = 60;
        let dir = TempDir::new();
        let (log, _) = open(real(), &dir.0, LogOptions { segment_bytes: 64 * 1024, ..small() }).unwrap();
        let acknowledged = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16u64)
                .map(|t| {
                    let log = &log;
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        for i in 0..EACH {
                            let bytes = payload(t * 1000 + i, (i % 90) as usize);
                            let sync = if i % 7 == 3 { Sync::Relaxed } else { Sync::Durable };
                            let lsn = log.append(&bytes, sync).unwrap();
                            log.wait_durable(lsn).unwrap();
                            assert!(log.durable_lsn() >= lsn);
                            mine.push((lsn, bytes));
                        }
                        assert!(mine.is_sorted());
                        mine
                    })
                })
                .collect();
            let mut all: Vec<_> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
            all.sort();
            all
        });
        let stats = log.stats();
        println!("{} frames in {} groups", acknowledged.len(), stats.flushes.count);
        assert!(stats.flushes.count < acknowledged.len() as u64, "threads must share flushes");
        std::mem::forget(log);
        let (_, frames) = open(real(), &dir.0, small()).unwrap();
        assert_eq!(frames, acknowledged);
    });
}

#[test]
fn a_relaxed_frame_after_a_buffered_one_survives_a_crash_of_the_process() {
    let dir = TempDir::new();
    let (log, _) = open(real(), &dir.0, small()).unwrap();
    let appended: Vec<_> = [Sync::Durable, Sync::Relaxed, Sync::Durable, Sync::Relaxed]
        .into_iter()
        .zip(0..)
        .map(|(sync, i)| (log.append(&payload(i, 50), sync).unwrap(), payload(i, 50)))
        .collect();
    // No thread has waited for the durable frames.
    std::mem::forget(log);
    let (_, frames) = open(real(), &dir.0, small()).unwrap();
    assert_eq!(frames, appended);
}

#[test]
fn a_relaxed_append_returns_when_all_earlier_frames_are_written_even_during_group_commits() {
    in_time(|| {
        use std::os::unix::fs::FileExt;
        use std::sync::atomic::AtomicBool;

        let dir = TempDir::new();
        let (log, _) = open(real(), &dir.0, LogOptions { segment_bytes: 1 << 20, ..small() }).unwrap();
        // Only the first segment is read; the test ends when it is full.
        let first = std::fs::read_dir(&dir.0).unwrap().map(|entry| entry.unwrap().path());
        let first = first.filter(|path| path.extension().is_some_and(|end| end == "wal")).min().unwrap();
        let file = std::fs::File::open(first).unwrap();
        let stop = AtomicBool::new(false);
        let checked = std::thread::scope(|scope| {
            for t in 0..3u64 {
                let (log, stop) = (&log, &stop);
                scope.spawn(move || {
                    for i in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                        let lsn = log.append(&payload(t << 32 | i, 500), Sync::Durable).unwrap();
                        log.wait_durable(lsn).unwrap();
                    }
                });
            }
            let (mut at, mut last, mut checked) = (512, None, 0);
            let hole = 'all: loop {
                let mine = log.append(&payload(0, 20), Sync::Relaxed).unwrap();
                // Frames up to this one do not change any more.
                while last != Some(mine.0) {
                    let mut header = [0; 24];
                    file.read_exact_at(&mut header, at).unwrap();
                    let lsn = u64::from_le_bytes(header[8..16].try_into().unwrap());
                    if last.is_some_and(|last| lsn != last + 1) {
                        break 'all Some(mine);
                    }
                    if header[20] == 4 {
                        break 'all None;
                    }
                    last = Some(lsn);
                    at += frame::size(u32::from_le_bytes(header[4..8].try_into().unwrap()) as usize);
                }
                checked += 1;
            };
            stop.store(true, Ordering::Relaxed);
            assert_eq!(hole, None, "a hole before the frame that was appended");
            checked
        });
        assert!(checked > 0);
    });
}

#[test]
fn buffered_bytes_are_bounded() {
    let dir = TempDir::new();
    let (log, _) = open(real(), &dir.0, LogOptions { segment_bytes: 1 << 20, ..small() }).unwrap();
    let before = log.stats();
    for i in 0..500 {
        log.append(&payload(i, 1000), Sync::Durable).unwrap();
    }
    assert_eq!(log.stats().flushes.count, before.flushes.count, "writing must not flush");
    std::mem::forget(log);
    // No thread waited, but all frames except the last two kilobytes were written.
    let (_, frames) = open(real(), &dir.0, small()).unwrap();
    assert!(frames.len() >= 497, "{}", frames.len());
}

#[test]
fn a_failed_write_or_flush_poisons_the_log_permanently() {
    // Enough calls to hit writes, flushes and the creation of segments.
    let dir = Path::new("/log");
    let mut poisoned = 0;
    for call in 0..60 {
        let disk = SimDisk::with_dir(Path::new("/log"));
        let (log, _) = open(Arc::new(disk.clone()), dir, small()).unwrap();
        disk.fail_at(disk.tried() + call, Fault::Io, false);
        let mut acknowledged = Vec::new();
        let mut failed = false;
        for i in 0..40 {
            let bytes = payload(i, 200);
            match durable(&log, &bytes) {
                Ok(lsn) => {
                    assert!(!failed, "a poisoned log took frame {i}");
                    acknowledged.push((lsn, bytes));
                }
                Err(Error::Poisoned { reason }) => {
                    assert!(reason.contains("/log"), "{reason}");
                    assert_eq!(log.poisoned(), Some(reason));
                    failed = true;
                }
                Err(other) => panic!("{other}"),
            }
        }
        poisoned += u32::from(failed);
        assert!(!failed || matches!(log.close(), Err(Error::Poisoned { .. })));
        drop(log);
        let image = disk.crash(crate::disk::crash::Crash::Nothing);
        let (_, frames) = open(Arc::new(image), dir, small()).unwrap();
        assert!(frames.len() >= acknowledged.len());
        assert_eq!(frames[..acknowledged.len()], acknowledged);
    }
    assert!(poisoned > 50, "{poisoned}");
}

#[test]
fn all_waiters_of_a_failed_group_get_the_error() {
    in_time(|| {
        let disk = SimDisk::with_dir(Path::new("/log"));
        let (log, _) = open(Arc::new(disk.clone()), Path::new("/log"), small()).unwrap();
        disk.fail_at(disk.tried() + 40, Fault::Io, true);
        std::thread::scope(|scope| {
            for t in 0..8 {
                let log = &log;
                scope.spawn(move || {
                    for i in 0..200 {
                        if let Err(e) = durable(log, &payload(t * 1000 + i, 50)) {
                            assert!(matches!(e, Error::Poisoned { .. }), "{e}");
                            return;
                        }
                    }
                    panic!("the disk failed but this thread got no error");
                });
            }
        });
    });
}

#[test]
fn a_full_disk_refuses_the_frame_and_the_log_continues_when_there_is_room() {
    let disk = SimDisk::with_dir(Path::new("/log"));
    let (log, _) = open(Arc::new(disk.clone()), Path::new("/log"), small()).unwrap();
    disk.set_room(Some(disk.used()));
    let mut kept = Vec::new();
    let mut refused = 0;
    for i in 0..40 {
        let bytes = payload(i, 300);
        match durable(&log, &bytes) {
            Ok(lsn) => kept.push((lsn, bytes)),
            Err(Error::DiskFull { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 20 && !kept.is_empty(), "{refused} {}", kept.len());
    assert_eq!(log.poisoned(), None);
    disk.set_room(None);
    for i in 40..60 {
        let bytes = payload(i, 300);
        kept.push((durable(&log, &bytes).unwrap(), bytes));
    }
    drop(log);
    let (_, frames) = open(Arc::new(disk), Path::new("/log"), small()).unwrap();
    assert_eq!(frames, kept);
}

#[test]
fn waiting_for_a_frame_that_was_never_appended_is_an_error() {
    let dir = TempDir::new();
    let (log, _) = open(real(), &dir.0, small()).unwrap();
    assert!(matches!(log.wait_durable(Lsn(99)), Err(Error::Invalid(_))));
    durable(&log, b"x").unwrap();
}
