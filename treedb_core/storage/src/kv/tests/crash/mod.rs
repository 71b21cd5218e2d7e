//! Power cuts at every boundary (write or sync) of random workloads, with every kind of outcome on the disk.
//!
//! A workload is run once, on a disk that records it. Then at each boundary, for each outcome: the store can
//! be opened, `check` passes, and its contents are the state after some commit, at least the last one that
//! was acknowledged as durable and at most the last one that had begun.
//!
//! | file | what it holds |
//! |---|---|
//! | `model` | the expected contents of a store |
//! | `run` | a random workload |
//! | `pairs` | the workload's changes to dup tables |
//! | `optimistic` | the workload's optimistic transactions |
//! | `leveldb` | the workload's steps through the LevelDB interface; interrupted destroy and repair |
//! | `workloads` | the workloads with a power cut at every boundary |
//! | `backup` | a copy made during a workload |
//! | `failures` | crashes of the process, failing calls |

mod backup;
mod failures;
mod leveldb;
pub(super) mod model;
mod optimistic;
mod pairs;
mod run;
mod workloads;

use std::collections::HashSet;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::disk::crash::Crash;
use model::dump;
use run::{Deep, Profile, Run};

/// Drops a store without closing it properly.
fn abandon(store: Store, disk: &SimDisk) {
    disk.cut_at(disk.boundaries());
    drop(store);
}

/// The number of crash images on which a store was opened, over all workloads.
static IMAGES: AtomicU64 = AtomicU64::new(0);

/// Prints a line for the test run's summary, even if the test harness captures output.
fn summary(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "\nsummary: kv crash: {line}, 0 violations");
}

/// Runs a workload and tests a power cut at every boundary.
fn cut_everywhere(profile: Profile, seed: u64, random: usize) {
    let mut run = Run::new(profile, seed);
    run.disk.record();
    let store = run.go().unwrap();
    let mut replay = run.disk.replay();
    assert_eq!(dump(&store).unwrap(), run.state);
    drop(store);
    let (mut boundaries, mut images, mut again) = (0, 0u64, Deep::default());
    // Each recovery has dozens of boundaries: it is interrupted only for about 10 images of each workload.
    let sample = run.disk.boundaries() * 3 / 2 / profile.every as u64;
    let mut states = HashSet::new();
    while let Some(point) = replay.next_point() {
        boundaries += 1;
        let allowed = run.allowed(point, &[Durability::Durable]);
        for (i, crash) in Crash::variants(point ^ seed, random).into_iter().enumerate() {
            if !(point as usize + i).is_multiple_of(profile.every) {
                continue;
            }
            let disk = replay.crash(crash);
            let what = || format!("seed {seed}, power cut after {point} calls, {crash:?}");
            let (store, found) = run.verify(&disk, &allowed, &what);
            abandon(store, &disk);
            states.insert(found);
            images += 1;
            if images.is_multiple_of(sample) {
                run.cut_recovery(&replay.crash(crash), &allowed, &mut again, 2, &what);
            }
        }
    }
    let Profile { name, every, .. } = profile;
    let (commits, found) = (run.commits.len(), states.len());
    let all = images + again.iter().sum::<u64>();
    let total = IMAGES.fetch_add(all, Ordering::Relaxed) + all;
    summary(&format!(
        "{name} ({:?}, seed {seed}): {commits} commits, power cut at {boundaries} boundaries x {} outcomes, {found} states \
         found, {} recoveries cut short, {} recoveries from that, {} from those: {all} crash images, {total} so far",
        MODE.get(),
        images / boundaries,
        again[0],
        again[1],
        again[2],
    ));
    assert!(again.iter().all(|&depth| depth > 40), "{again:?}");
    assert!(
        boundaries > 40 && images >= 8 * boundaries / every as u64 && found > commits / 3,
        "{found} of {commits}"
    );
}
