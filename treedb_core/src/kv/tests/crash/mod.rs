//! Power cuts at every boundary of random workloads, with every kind of outcome on the medium.
//!
//! A workload is run once, on a disk that records. Then at each boundary, for each outcome: the store opens, `check`
//! passes, and what is in it is the state after some commit, at least the last that had been acknowledged as durable
//! and at most the last that had begun.
//!
//! | file | noun |
//! |---|---|
//! | `model` | what a store should hold |
//! | `run` | a random workload |
//! | `pairs` | its changes to dup tables |
//! | `optimistic` | its optimistic transactions |
//! | `workloads` | the workloads whose power is cut everywhere |
//! | `backup` | a copy made in the middle of a workload |
//! | `failures` | deaths of the process, calls that fail |

mod backup;
mod failures;
pub(super) mod model;
mod optimistic;
mod pairs;
mod run;
mod workloads;

use std::collections::HashSet;
use std::io::Write;

use super::*;
use crate::disk::crash::Crash;
use model::dump;
use run::{Profile, Run};

/// Drops a store without the work of closing it.
fn abandon(store: Store, disk: &SimDisk) {
    disk.cut_at(disk.boundaries());
    drop(store);
}

/// A line of the test run's summary, shown whatever the harness captures.
fn summary(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "\nsummary: kv crash: {line}, 0 violations");
}

/// Runs a workload and cuts the power everywhere.
fn cut_everywhere(profile: Profile, seed: u64, random: usize) {
    let mut run = Run::new(profile, seed);
    run.disk.record();
    let store = run.go().unwrap();
    let mut replay = run.disk.replay();
    assert_eq!(dump(&store).unwrap(), run.state);
    drop(store);
    let (mut boundaries, mut images, mut again) = (0, 0, 0);
    // Each recovery has dozens of boundaries itself: it is cut short for some 30 images of each workload.
    let sample = run.disk.boundaries() as usize / 2;
    let mut states = HashSet::new();
    while let Some(point) = replay.next_point() {
        boundaries += 1;
        let allowed = run.allowed(point, &[Durability::Durable]);
        for (i, crash) in Crash::variants(point ^ seed, random).into_iter().enumerate() {
            let disk = replay.crash(crash);
            let what = || format!("seed {seed}, power cut after {point} calls, {crash:?}");
            let (store, found) = run.verify(&disk, &allowed, &what);
            abandon(store, &disk);
            states.insert(found);
            images += 1;
            if (point as usize + 7 * i).is_multiple_of(sample) {
                again += run.cut_recovery(&replay.crash(crash), &allowed, &what);
            }
        }
    }
    let Profile { name, .. } = profile;
    let (commits, found) = (run.commits.len(), states.len());
    summary(&format!(
        "{name} (seed {seed}): {commits} commits, {boundaries} boundaries x {} outcomes, {found} states found, \
         {again} recoveries cut short",
        images / boundaries
    ));
    assert!(boundaries > 40 && images >= 8 * boundaries && found > commits / 3, "{found} of {commits}");
}
