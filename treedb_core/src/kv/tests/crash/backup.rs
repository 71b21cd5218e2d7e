//! A copy made in the middle of a workload: whatever the power cut leaves of it is whole, or is not there.

use super::super::*;
use super::model::dump;
use super::run::{MIXED, Profile, Run};
use super::{abandon, summary};
use crate::disk::Disk;
use crate::disk::crash::Crash;

#[test]
fn a_copy_is_there_whole_or_not_at_all_after_power_cuts() {
    let profile = Profile { name: "backup", steps: 15, large: 20, ddl: 6, ..MIXED };
    let copy = Path::new("/data/copy");
    let open_copy = |disk: &SimDisk| Store::open_with(copy, options(disk));
    let mut run = Run::new(profile, 21);
    let store = run.go().unwrap();
    run.disk.record();
    let copied = run.state.clone();
    store.backup_to(copy, |_| {}).unwrap();
    let acked = run.disk.boundaries();
    for _ in 0..5 {
        run.commit(&store).unwrap();
    }
    let mut replay = run.disk.replay();
    drop(store);
    let (mut boundaries, mut images, mut there) = (0, 0, 0);
    while let Some(point) = replay.next_point() {
        boundaries += 1;
        let allowed = run.allowed(point, &[Durability::Durable]);
        for crash in Crash::variants(point, 1) {
            let disk = replay.crash(crash);
            let what = || format!("power cut after {point} calls, {crash:?}");
            let (store, _) = run.verify(&disk, &allowed, &what);
            images += 1;
            let left = disk.exists(copy).unwrap();
            assert!(left || point < acked, "{}: the copy is gone", what());
            if !left && images % 5 == 0 {
                // What is left of the draft is not in the way of another copy.
                let state = dump(&store).unwrap();
                store.backup_to(copy, |_| {}).unwrap_or_else(|e| panic!("{}: {e}", what()));
                assert_eq!(dump(&open_copy(&disk).unwrap()).unwrap(), state, "{}", what());
            }
            if left {
                there += 1;
                let second = open_copy(&disk).unwrap_or_else(|e| panic!("{}: the copy: {e}", what()));
                second.check().unwrap_or_else(|e| panic!("{}: the copy: {e}", what()));
                assert_eq!(dump(&second).unwrap(), copied, "{}: the copy", what());
            }
            abandon(store, &disk);
        }
    }
    summary(&format!("backup: {boundaries} boundaries, {images} outcomes, the copy whole in {there}"));
    assert!(boundaries > 20 && there > 20 && there < images);
}
