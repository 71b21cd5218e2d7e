//! Power cuts at every write and sync of random runs.

use treedb_testing::{Rng, seeds};

use super::*;
use crate::disk::crash::Crash;
use crate::disk::sim::SimDisk;

const DIR: &str = "/log";

/// What a run did, with the number of disk operations at each point.
#[derive(Default)]
struct Journal {
    /// All appended frames, in order.
    frames: Vec<(Lsn, Vec<u8>)>,
    /// LSNs up to which the log was durable, with the number of disk operations at which it was known.
    acknowledged: Vec<(u64, Lsn)>,
    /// LSNs of durable checkpoints (which are not in the log), with the number of disk operations.
    checkpoints: Vec<(u64, Lsn)>,
}

impl Journal {
    fn at(list: &[(u64, Lsn)], point: u64) -> Lsn {
        list.iter().filter(|(when, _)| *when <= point).map(|(_, lsn)| *lsn).max().unwrap_or_default()
    }
}

/// Appends small and large frames, waits, checkpoints, closes and opens the log again.
fn run(disk: &SimDisk, seed: u64, steps: usize, rounds: usize) -> Journal {
    let mut rng = Rng::new(seed);
    let mut journal = Journal::default();
    let mut applied = Lsn::NONE;
    let mut tag = seed * 1_000_000;
    for _ in 0..rounds {
        let (log, frames) = open(Arc::new(disk.clone()), Path::new(DIR), from(applied)).unwrap();
        let expected = journal.frames.iter().filter(|f| f.0 > applied).cloned().collect::<Vec<_>>();
        assert_eq!(frames, expected);
        for _ in 0..steps {
            tag += 1;
            let len = match rng.below(10) {
                0 => 5000,
                1 => 0,
                2..5 => 100,
                _ => rng.below(400),
            };
            let bytes = payload(tag, len);
            let sync = if rng.chance(50) { Sync::Relaxed } else { Sync::Durable };
            let lsn = log.append(&bytes, sync).unwrap();
            journal.frames.push((lsn, bytes));
            if rng.chance(40) {
                log.wait_durable(lsn).unwrap();
                journal.acknowledged.push((disk.boundaries(), lsn));
            }
            if rng.chance(8) {
                // A checkpoint need not wait for the log: the page file contains everything it covers.
                applied = lsn;
                journal.checkpoints.push((disk.boundaries(), lsn));
                log.cut(lsn).unwrap();
            }
        }
        if rng.chance(70) {
            log.close().unwrap();
            let last = journal.frames.last().unwrap().0;
            journal.acknowledged.push((disk.boundaries(), last));
        }
    }
    journal
}

/// Checks that the log in an image is a prefix of the run's frames that includes all acknowledged ones.
fn check(image: &SimDisk, journal: &Journal, point: u64, what: &str) -> (Log, Lsn, Frames) {
    let applied = Journal::at(&journal.checkpoints, point);
    let acknowledged = Journal::at(&journal.acknowledged, point);
    let (log, frames) = match open(Arc::new(image.clone()), Path::new(DIR), from(applied)) {
        Ok(opened) => opened,
        Err(e) => panic!("{what}: {e}"),
    };
    let expected: Vec<_> = journal.frames.iter().filter(|f| f.0 > applied).cloned().collect();
    assert!(frames.len() <= expected.len(), "{what}");
    assert!(frames == expected[..frames.len()], "{what}: not a prefix");
    let last = frames.last().map_or(applied, |f| f.0);
    assert!(last >= acknowledged, "{what}: frame {acknowledged} was acknowledged, the log ends at {last}");
    (log, applied, frames)
}

#[test]
fn a_power_cut_at_any_boundary_leaves_a_prefix_with_all_acknowledged_frames() {
    let (mut points, mut images) = (0, 0);
    for seed in seeds(0..6) {
        let disk = SimDisk::with_dir(Path::new(DIR));
        disk.record();
        let journal = run(&disk, seed, 25, 3);
        let mut replay = disk.replay();
        while let Some(point) = replay.next_point() {
            points += 1;
            for crash in Crash::variants(seed << 32 | point, 5) {
                images += 1;
                let what = format!("seed {seed}, boundary {point}, {crash:?}");
                let (log, ..) = check(&replay.crash(crash), &journal, point, &what);
                drop(log);
            }
        }
    }
    println!("log: {points} boundaries, {images} crash images");
    assert!(images > 5000);
}

#[test]
fn frames_lost_in_one_crash_do_not_come_back_after_the_next() {
    let mut images = 0;
    for seed in seeds(10..13) {
        let disk = SimDisk::with_dir(Path::new(DIR));
        disk.record();
        let journal = run(&disk, seed, 20, 2);
        let mut replay = disk.replay();
        while let Some(point) = replay.next_point() {
            if point % 3 != seed % 3 {
                continue;
            }
            for crash in Crash::variants(seed << 32 | point, 2) {
                // The power fails again during or after recovery, at every operation.
                let first = replay.crash(crash);
                first.record();
                let what = format!("seed {seed}, boundary {point}, {crash:?}");
                let (log, applied, mut frames) = check(&first, &journal, point, &what);
                let survived = frames.len();
                let mut known = vec![(first.boundaries(), survived)];
                for i in 0..4 {
                    // The same length as earlier frames, so that stale frames would be at the expected
                    // offsets.
                    let bytes = payload(777_000_000 + i, 100);
                    frames.push((log.append(&bytes, Sync::Relaxed).unwrap(), bytes));
                    if i == 2 {
                        log.wait_durable(log.last_lsn()).unwrap();
                        known.push((first.boundaries(), frames.len()));
                    }
                }
                let mut second = first.replay();
                while let Some(again) = second.next_point() {
                    let at_least = known.iter().filter(|k| k.0 <= again).map(|k| k.1).max().unwrap_or(0);
                    for twice in [Crash::Nothing, Crash::Everything, Crash::OddSectors, Crash::Random(again)]
                    {
                        images += 1;
                        let image = second.crash(twice);
                        let (_, found) = open(Arc::new(image), Path::new(DIR), from(applied))
                            .unwrap_or_else(|e| panic!("{what}, then {again} {twice:?}: {e}"));
                        assert!(found.len() >= at_least.min(survived), "{what}, then {again} {twice:?}");
                        // Until the first recovery has finished, frames that are not durable may still be
                        // lost; the log must still be a prefix, without stale frames.
                        assert!(
                            found == frames[..found.len()],
                            "{what}, then {again} {twice:?}: stale frames"
                        );
                        assert!(found.len() >= at_least, "{what}, then {again} {twice:?}");
                    }
                }
            }
        }
    }
    println!("log: {images} double crash images");
}

/// Appends durable frames, four per segment, and sometimes truncates the log. If the disk fails, `frames` are
/// the frames that must still be in the log.
fn fill(disk: &SimDisk, applied: &mut Lsn, frames: &mut Frames, tags: std::ops::Range<u64>) -> Result<()> {
    let (log, found) = open(Arc::new(disk.clone()), Path::new(DIR), from(*applied))?;
    assert!(found.len() >= frames.len(), "acknowledged frames are lost");
    *frames = found;
    for tag in tags {
        let bytes = payload(tag, 900);
        frames.push((durable(&log, &bytes)?, bytes));
        if tag % 6 == 5 {
            *applied = log.last_lsn();
            frames.clear();
            log.cut(*applied)?;
        }
    }
    Ok(())
}

#[test]
fn directory_entries_left_by_a_crashed_process_are_safe_in_a_later_power_cut() {
    let whole = SimDisk::with_dir(Path::new(DIR));
    fill(&whole, &mut Lsn(0), &mut Vec::new(), 0..20).unwrap();
    let mut images = 0;
    for at in 0..whole.boundaries() {
        let disk = SimDisk::with_dir(Path::new(DIR));
        let (mut applied, mut frames) = (Lsn::NONE, Vec::new());
        disk.cut_at(at);
        assert!(fill(&disk, &mut applied, &mut frames, 0..20).is_err());
        disk.revive();
        // The log continues with directory entries that are not durable yet, and spares become segments.
        disk.record();
        let checkpoint = applied;
        // There is no checkpoint among these.
        fill(&disk, &mut applied, &mut frames, 20..23).unwrap();
        assert_eq!(applied, checkpoint);
        let end = disk.boundaries();
        let mut replay = disk.replay();
        while let Some(point) = replay.next_point() {
            for crash in [Crash::Nothing, Crash::NamesLost, Crash::NamesOnly, Crash::Random(point ^ at)] {
                images += 1;
                let what = format!("process crash after {at} calls, power cut after {point}, {crash:?}");
                let image = replay.crash(crash);
                let (_, found) = open(Arc::new(image), Path::new(DIR), from(applied))
                    .unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(found.len() <= frames.len() && found == frames[..found.len()], "{what}");
                assert!(point < end || found.len() == frames.len(), "{what}");
            }
        }
    }
    println!("log: {images} crash images after a crash of the process");
}

#[test]
fn stale_frames_at_the_expected_offset_are_not_accepted() {
    // All frames have the same length, and the shift makes a sector boundary a frame boundary: then a stale
    // frame after a lost one has exactly the LSN and the offset of a frame that is appended after recovery.
    let mut images = 0;
    for closed in [false, true] {
        for shift in 0..13 {
            let disk = SimDisk::with_dir(Path::new(DIR));
            let (log, _) = open(Arc::new(disk.clone()), Path::new(DIR), small()).unwrap();
            let mut before = vec![durable(&log, &vec![1; 300 + 8 * shift]).unwrap()];
            if closed {
                log.close().unwrap();
            }
            let log =
                if closed { open(Arc::new(disk.clone()), Path::new(DIR), small()).unwrap().0 } else { log };
            if !closed {
                // The same length as an `opened` frame.
                before.push(log.append(&[], Sync::Relaxed).unwrap());
            }
            before.extend((0..20).map(|i| log.append(&payload(i, 72), Sync::Relaxed).unwrap()));
            for first in Crash::variants(shift as u64, 8) {
                let disk = disk.crash(first);
                let (log, mut frames) = open(Arc::new(disk.clone()), Path::new(DIR), small()).unwrap();
                let survived = frames.len();
                assert!(frames.iter().map(|f| f.0).eq(before[..survived].iter().copied()));
                for i in 0..6 {
                    let bytes = payload(5000 + i, 72);
                    frames.push((log.append(&bytes, Sync::Relaxed).unwrap(), bytes));
                }
                for second in Crash::variants(first_seed(&first), 2) {
                    images += 1;
                    let (_, found) = open(Arc::new(disk.crash(second)), Path::new(DIR), small()).unwrap();
                    let what = format!("closed {closed}, shift {shift}, {first:?}, {second:?}");
                    assert!(found.len() >= survived, "{what}");
                    assert!(found.len() <= frames.len(), "{what}: stale frames came back");
                    assert!(found == frames[..found.len()], "{what}: stale frames came back");
                }
            }
        }
    }
    println!("log: {images} crash images with stale frames at the expected offset");
}

fn first_seed(crash: &Crash) -> u64 {
    if let Crash::Random(seed) = crash { *seed } else { 0 }
}
