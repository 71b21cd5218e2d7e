//! Power cuts at every boundary of scripted runs.

use treedb_testing::{Rng, seeds};

use super::*;
use crate::disk::crash::Crash;
use crate::disk::sim::SimDisk;

const DIR: &str = "/log";

/// What a run did, with the boundary count at which each thing was known.
#[derive(Default)]
struct Journal {
    /// Every frame appended, in order.
    frames: Vec<(Lsn, Vec<u8>)>,
    /// Boundary count at which the log said that frames up to an LSN were durable.
    acknowledged: Vec<(u64, Lsn)>,
    /// Boundary count at which a checkpoint of an LSN was durable (elsewhere).
    checkpoints: Vec<(u64, Lsn)>,
}

impl Journal {
    fn at(list: &[(u64, Lsn)], point: u64) -> Lsn {
        list.iter().filter(|(when, _)| *when <= point).map(|(_, lsn)| *lsn).max().unwrap_or_default()
    }
}

/// Appends, waits, checkpoints, closes and opens again, with frames small and large.
fn run(disk: &SimDisk, seed: u64, steps: usize, lives: usize) -> Journal {
    let mut rng = Rng::new(seed);
    let mut journal = Journal::default();
    let mut applied = Lsn::NONE;
    let mut tag = seed * 1_000_000;
    for _ in 0..lives {
        let (log, frames) = open(Arc::new(disk.clone()), Path::new(DIR), from(applied)).unwrap();
        let from_last = journal.frames.iter().filter(|f| f.0 > applied).cloned().collect::<Vec<_>>();
        assert_eq!(frames, from_last);
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
                // A checkpoint need not wait for the log: the page file holds what it covers.
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

/// Checks that an image holds a prefix of the run's frames that reaches at least as far as was acknowledged.
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
                // Power fails again during recovery or just after it, at each boundary.
                let first = replay.crash(crash);
                first.record();
                let what = format!("seed {seed}, boundary {point}, {crash:?}");
                let (log, applied, mut frames) = check(&first, &journal, point, &what);
                let survived = frames.len();
                let mut known = vec![(first.boundaries(), survived)];
                for i in 0..4 {
                    // As long as the frames of before, so that stale ones would line up.
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
                        // Before the first recovery is through, frames that are only in the system's memory may
                        // still go; what is found is a prefix all the same, and never an old frame in a new place.
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

/// Durable frames, four to a segment, cut now and then; returns what stays in the log when the disk fails.
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
fn names_left_by_a_process_that_died_do_no_harm_when_the_power_goes_later() {
    let whole = SimDisk::with_dir(Path::new(DIR));
    fill(&whole, &mut Lsn(0), &mut Vec::new(), 0..20).unwrap();
    let mut images = 0;
    for at in 0..whole.boundaries() {
        let disk = SimDisk::with_dir(Path::new(DIR));
        let (mut applied, mut frames) = (Lsn::NONE, Vec::new());
        disk.cut_at(at);
        assert!(fill(&disk, &mut applied, &mut frames, 0..20).is_err());
        disk.revive();
        // What only the system knows is built upon, and spares become segments.
        disk.record();
        let checkpoint = applied;
        // No checkpoint in these.
        fill(&disk, &mut applied, &mut frames, 20..23).unwrap();
        assert_eq!(applied, checkpoint);
        let end = disk.boundaries();
        let mut replay = disk.replay();
        while let Some(point) = replay.next_point() {
            for crash in [Crash::Nothing, Crash::NamesLost, Crash::NamesOnly, Crash::Random(point ^ at)] {
                images += 1;
                let what = format!("process death after {at} calls, power cut after {point}, {crash:?}");
                let image = replay.crash(crash);
                let (_, found) = open(Arc::new(image), Path::new(DIR), from(applied))
                    .unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(found.len() <= frames.len() && found == frames[..found.len()], "{what}");
                assert!(point < end || found.len() == frames.len(), "{what}");
            }
        }
    }
    println!("log: {images} crash images after the death of the process");
}

#[test]
fn stale_frames_that_line_up_exactly_are_not_taken() {
    // Frames of one length, numbered on, shifted so that a cut between two sectors falls between two frames: what
    // lies after a lost frame then has the number and the place that the next life's frames lead up to.
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
                // As long as the frame that would mark a log as opened again.
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
    println!("log: {images} crash images with stale frames in line");
}

fn first_seed(crash: &Crash) -> u64 {
    if let Crash::Random(seed) = crash { *seed } else { 0 }
}
