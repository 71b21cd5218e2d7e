//! Group commit under random thread schedules.

use super::*;
use crate::disk::SimDisk;
use crate::disk::crash::Crash;
use crate::disk::sim::Fault;
use crate::sync::{schedules, thread};

const DIR: &str = "/log";

#[test]
fn every_waiter_of_a_group_is_woken_and_its_frame_durable() {
    schedules("group commit", 3000, || {
        let disk = SimDisk::with_dir(Path::new(DIR));
        let (log, _) = open(Arc::new(disk.clone()), Path::new(DIR), small()).unwrap();
        let log = Arc::new(log);
        let threads: Vec<_> = (0..3u64)
            .map(|tag| {
                let (log, disk) = (Arc::clone(&log), disk.clone());
                thread::spawn(move || {
                    for round in 0..2 {
                        let bytes = payload(tag, 300);
                        let sync = if (tag + round) % 3 == 1 { Sync::Relaxed } else { Sync::Durable };
                        let lsn = log.append(&bytes, sync).unwrap();
                        log.wait_durable(lsn).unwrap();
                        let after = disk.crash(Crash::Nothing);
                        let (_, frames) = open(Arc::new(after), Path::new(DIR), small()).unwrap();
                        let found = frames.iter().find(|(at, _)| *at == lsn);
                        assert!(
                            found.is_some_and(|(_, found)| *found == bytes),
                            "frame {lsn} of {tag} is lost"
                        );
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!((1..=6).contains(&log.stats().flushes.count));
    });
}

#[test]
fn a_failed_flush_is_reported_to_every_waiter() {
    schedules("group commit with a failed flush", 3000, || {
        let disk = SimDisk::with_dir(Path::new(DIR));
        let (log, _) = open(Arc::new(disk.clone()), Path::new(DIR), small()).unwrap();
        let log = Arc::new(log);
        // The third disk operation from here and all later ones fail.
        disk.fail_at(disk.tried() + 2, Fault::Io, true);
        let threads: Vec<_> = (0..3u64)
            .map(|tag| {
                let (log, disk) = (Arc::clone(&log), disk.clone());
                thread::spawn(move || {
                    let lsn = log.append(&payload(tag, 40), Sync::Durable);
                    let Ok(lsn) = lsn else { return false };
                    if log.wait_durable(lsn).is_err() {
                        return false;
                    }
                    let (_, frames) =
                        open(Arc::new(disk.crash(Crash::Nothing)), Path::new(DIR), small()).unwrap();
                    assert!(frames.iter().any(|(at, _)| *at == lsn), "frame {lsn} is lost");
                    true
                })
            })
            .collect();
        let all = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|&done| done).count();
        assert!(all == 3 || log.poisoned().is_some());
    });
}
