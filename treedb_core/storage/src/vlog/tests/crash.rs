//! Power cuts at every write and sync of random runs.

use treedb_testing::{Rng, seeds};

use super::*;
use crate::disk::crash::Crash;
use crate::disk::sim::SimDisk;

/// A checkpoint that is durable from a boundary on: the log's state and the live values.
struct Point {
    from: u64,
    state: ValueLogState,
    live: Vec<(ValuePtr, u64, usize)>,
}

/// Appends, overwrites, moves, checkpoints and removes values; sometimes reopens the log without closing it.
fn run(disk: &SimDisk, seed: u64) -> Vec<Point> {
    let mut rng = Rng::new(seed);
    let mut points = vec![Point { from: 0, state: ValueLogState::default(), live: Vec::new() }];
    let mut log = open(disk.clone(), Path::new(DIR), ValueLogState::default()).unwrap();
    let mut live: Vec<(ValuePtr, u64, usize)> = Vec::new();
    for step in 0..110u64 {
        let len = if rng.chance(5) { 20_000 } else { rng.below(4000) };
        let ptr = log.append(&step.to_le_bytes(), &value(step, len)).unwrap();
        live.push((ptr, step, len));
        if rng.chance(60) {
            let (gone, ..) = live.swap_remove(rng.below(live.len()));
            log.release(gone).unwrap();
        }
        if rng.chance(15) {
            let state = checkpoint(&log).unwrap();
            // The checkpoint is durable as soon as the log is: the log does nothing in between.
            points.push(Point { from: disk.boundaries(), state: state.clone(), live: live.clone() });
            clean(&log, &state).unwrap();
        }
        if rng.chance(3) {
            // The process crashes, but the operating system does not.
            let last = points.last().unwrap();
            log = open(disk.clone(), Path::new(DIR), last.state.clone()).unwrap();
            live = last.live.clone();
        }
    }
    points
}

#[test]
fn a_power_cut_at_any_boundary_keeps_every_value_of_the_checkpoint() {
    let (mut boundaries, mut images) = (0, 0);
    for seed in seeds(0..2) {
        let disk = SimDisk::with_dir(Path::new(DIR));
        disk.record();
        let points = run(&disk, seed);
        let mut replay = disk.replay();
        while let Some(at) = replay.next_point() {
            boundaries += 1;
            let point = points.iter().rfind(|p| p.from <= at).unwrap();
            for crash in Crash::variants(seed << 32 | at, 4) {
                images += 1;
                let what = format!("seed {seed}, boundary {at}, {crash:?}");
                let image = replay.crash(crash);
                let log = open(image, Path::new(DIR), point.state.clone())
                    .unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(log.state(), point.state, "{what}");
                for (ptr, tag, len) in &point.live {
                    let found = log.get(*ptr).unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert!(found == value(*tag, *len), "{what}");
                }
                // Recovery appends the values of the command log again; garbage after the end is never read.
                let again: Vec<_> =
                    (0..8).map(|i| log.append(b"r", &value(9000 + i, 3000)).unwrap()).collect();
                for (i, ptr) in again.iter().enumerate() {
                    assert!(log.get(*ptr).unwrap() == value(9000 + i as u64, 3000), "{what}");
                }
                for s in &log.state().segments {
                    for record in log.records(s.id).unwrap() {
                        record.unwrap_or_else(|e| panic!("{what}: {e}"));
                    }
                }
                // Pointers to values that the crash lost give an error or exactly the same bytes.
                for (ptr, tag, len) in points.iter().flat_map(|p| &p.live) {
                    if let Ok(found) = log.get(*ptr) {
                        assert!(found == value(*tag, *len), "{what}");
                    }
                }
            }
        }
    }
    println!("value log: {boundaries} boundaries, {images} crash images");
    assert!(images > 5000);
}
