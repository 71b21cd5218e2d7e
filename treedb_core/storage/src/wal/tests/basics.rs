//! Tests of the log without failures.

use super::*;
use crate::Error;

#[test]
fn frames_are_recovered_in_order_after_a_clean_shutdown() {
    let dir = TempDir::new();
    let mut expected = Vec::new();
    for round in 0..5u64 {
        let (log, frames) = open(real(), &dir.0, small()).unwrap();
        assert_eq!(frames, expected);
        for i in 0..40u64 {
            let bytes = payload(round * 100 + i, (i * 37 % 300) as usize);
            let sync = if i % 3 == 0 { Sync::Relaxed } else { Sync::Durable };
            let lsn = log.append(&bytes, sync).unwrap();
            if i % 5 == 0 {
                log.wait_durable(lsn).unwrap();
                assert!(log.durable_lsn() >= lsn);
            }
            expected.push((lsn, bytes));
        }
        assert!(log.stats().segments > 1);
        log.close().unwrap();
        assert!(matches!(log.append(b"late", Sync::Relaxed), Err(Error::Invalid(_))));
    }
}

#[test]
fn a_relaxed_frame_survives_a_crash_of_the_process() {
    let dir = TempDir::new();
    let (log, _) = open(real(), &dir.0, small()).unwrap();
    let mut expected = Vec::new();
    for i in 0..50 {
        let bytes = payload(i, 200);
        expected.push((log.append(&bytes, Sync::Relaxed).unwrap(), bytes));
    }
    // Neither dropped nor closed: as if the process had been killed.
    std::mem::forget(log);
    let (log, frames) = open(real(), &dir.0, small()).unwrap();
    assert_eq!(frames, expected);
    // Several more crashes; each time the log is opened, the previous segment is sealed.
    for i in 0..5 {
        let bytes = payload(1000 + i, 20);
        expected.push((log.append(&bytes, Sync::Relaxed).unwrap(), bytes));
        std::mem::forget(open(real(), &dir.0, small()).unwrap());
    }
    drop(log);
}

#[test]
fn recovery_starts_above_the_checkpoint() {
    let dir = TempDir::new();
    let (log, _) = open(real(), &dir.0, small()).unwrap();
    let lsns: Vec<Lsn> = (0..60).map(|i| durable(&log, &payload(i, 100)).unwrap()).collect();
    log.close().unwrap();
    for at in [0, 1, 30, 58, 59] {
        let (log, frames) = open(real(), &dir.0, from(lsns[at])).unwrap();
        assert_eq!(frames.iter().map(|f| f.0).collect::<Vec<_>>(), lsns[at + 1..].to_vec());
        log.close().unwrap();
    }
}

#[test]
fn cutting_keeps_later_segments_and_recycles_the_others() {
    let dir = TempDir::new();
    let (log, _) = open(real(), &dir.0, small()).unwrap();
    let mut last = Lsn::NONE;
    for i in 0..500 {
        last = durable(&log, &payload(i, 150)).unwrap();
        if i % 50 == 49 {
            log.cut(Lsn(last.0 - 3)).unwrap();
            let stats = log.stats();
            assert!(stats.segments <= 2 && stats.spares <= 2, "{stats:?}");
        }
    }
    let files = std::fs::read_dir(&dir.0).unwrap().count();
    assert!(files <= 4, "{files} files");
    log.close().unwrap();
    let (_, frames) = open(real(), &dir.0, from(Lsn(last.0 - 3))).unwrap();
    assert_eq!(frames.len(), 3);
    assert_eq!(frames[2].1, payload(499, 150));
}

#[test]
fn a_cut_survives_a_crash_and_old_frames_in_recycled_segments_stay_invalid() {
    let dir = TempDir::new();
    let mut applied = Lsn::NONE;
    for round in 0..6u64 {
        let (log, frames) = open(real(), &dir.0, from(applied)).unwrap();
        assert!(frames.len() <= 1, "{frames:?}");
        for i in 0..120 {
            // The same lengths in every round, so that old frames are exactly where new ones are expected.
            applied = log.append(&payload(round * 1000 + i, 92), Sync::Relaxed).unwrap();
            if i % 20 == 19 {
                log.wait_durable(applied).unwrap();
                log.cut(applied).unwrap();
            }
        }
        log.append(b"one after the checkpoint", Sync::Relaxed).unwrap();
        std::mem::forget(log);
    }
}

#[test]
fn frames_from_0_bytes_to_64_mib_are_recovered() {
    let dir = TempDir::new();
    let options = LogOptions::default();
    let (log, _) = open(real(), &dir.0, options.clone()).unwrap();
    let sizes = [0, 1, 7, 8, 300_000, 16 << 20, 5, 48 << 20, 64 << 20, 9];
    for (i, size) in sizes.into_iter().enumerate() {
        let sync = if i % 2 == 0 { Sync::Durable } else { Sync::Relaxed };
        log.append(&vec![i as u8; size], sync).unwrap();
    }
    log.wait_durable(log.last_lsn()).unwrap();
    std::mem::forget(log);
    let (log, mut recovery) = Log::open(real(), &dir.0, options).unwrap();
    for (i, size) in sizes.into_iter().enumerate() {
        let frame = recovery.next().unwrap().unwrap();
        assert!(frame.payload.len() == size && frame.payload.iter().all(|b| *b == i as u8), "frame {i}");
    }
    assert_eq!(recovery.next().unwrap(), None);
    log.cut(log.last_lsn()).unwrap();
    assert!(log.stats().segments == 1, "{:?}", log.stats());
}

#[test]
fn a_missing_log_is_an_error_if_one_must_exist() {
    let dir = TempDir::new();
    for options in [LogOptions { must_exist: true, ..small() }, from(Lsn(7))] {
        match open(real(), &dir.0, options).map(|_| ()) {
            Err(Error::Corrupt(missing)) => assert_eq!(missing.file, dir.0),
            other => panic!("{other:?}"),
        }
    }
    open(real(), &dir.0, small()).unwrap();
}

#[test]
fn a_log_that_ends_before_its_checkpoint_continues_after_it() {
    let dir = TempDir::new();
    let (log, _) = open(real(), &dir.0, small()).unwrap();
    for i in 0..5 {
        log.append(&payload(i, 10), Sync::Relaxed).unwrap();
    }
    std::mem::forget(log);
    // The checkpoint covered frames that the log then lost in a power cut.
    let applied = Lsn(100);
    let (log, frames) = open(real(), &dir.0, from(applied)).unwrap();
    assert_eq!(frames, []);
    let next = durable(&log, b"next").unwrap();
    assert!(next > applied);
    std::mem::forget(log);
    let (_, frames) = open(real(), &dir.0, from(applied)).unwrap();
    assert_eq!(frames, [(next, b"next".to_vec())]);
}

#[test]
fn a_prepared_segment_is_used_next_and_survives_a_restart_as_a_spare() {
    let dir = TempDir::new();
    let (log, _) = Log::open(real(), &dir.0, small()).unwrap();
    assert!(!log.wants_segment());
    let mut appended = 0;
    while !log.wants_segment() {
        log.append(&[7; 100], Sync::Relaxed).unwrap();
        appended += 1;
        assert!(appended < 50, "the segment must be half full by now");
    }
    assert!(!log.wants_segment(), "only true once");
    log.prepare().unwrap();
    log.prepare().unwrap();
    assert_eq!(log.stats().spares, 1);
    drop(log);
    let (log, mut frames) = Log::open(real(), &dir.0, small()).unwrap();
    let mut read = 0;
    while frames.next().unwrap().is_some() {
        read += 1;
    }
    assert_eq!(read, appended);
    // Opening used the spare, or it is still there for the next segment.
    let left = log.stats().spares;
    while log.stats().switches.count == 0 {
        log.append(&[8; 100], Sync::Relaxed).unwrap();
    }
    assert!(log.stats().spares <= left);
    assert!(log.stats().switches.longest <= log.stats().switches.total);
}
