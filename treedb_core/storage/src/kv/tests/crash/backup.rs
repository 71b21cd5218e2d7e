//! A copy made during a workload: after a power cut it is complete or absent.

use super::super::*;
use super::model::dump;
use super::run::{MIXED, Profile, Run};
use super::{abandon, summary};
use crate::disk::Disk;
use crate::disk::crash::Crash;

const PROFILE: Profile = Profile { name: "backup", steps: 15, large: 20, ddl: 6, ..MIXED };

fn open_copy(disk: &SimDisk) -> crate::Result<Store> {
    Store::open_with("/data/copy", options(disk))
}

#[test]
fn a_copy_is_complete_or_absent_after_power_cuts() {
    cut_a_copy(1);
    for mode in [Mode::Cached, Mode::Encrypted] {
        in_mode(mode, || cut_a_copy(4));
    }
}

/// Tests one in `every` outcomes.
fn cut_a_copy(every: usize) {
    let copy = Path::new("/data/copy");
    let mut run = Run::new(PROFILE, 21);
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
        for (i, crash) in Crash::variants(point, 1).into_iter().enumerate() {
            if !(point as usize + i).is_multiple_of(every) {
                continue;
            }
            let disk = replay.crash(crash);
            let what = || format!("power cut after {point} calls, {crash:?}");
            let (store, _) = run.verify(&disk, &allowed, &what);
            images += 1;
            let left = disk.exists(copy).unwrap();
            assert!(left || point < acked, "{}: the copy is gone", what());
            if !left && images % 5 == 0 {
                // The rest of an unfinished copy does not prevent another one.
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
    let mode = MODE.get();
    summary(&format!(
        "backup ({mode:?}): {boundaries} boundaries, {images} outcomes, the copy whole in {there}"
    ));
    assert!(boundaries > 20 && there > 20 && there < images);
}

#[test]
fn a_copy_left_by_a_crashed_process_is_durable_once_it_is_written_to() {
    let mut run = Run::new(PROFILE, 22);
    let store = run.go().unwrap();
    store.close().unwrap();
    let before = run.disk.crash(Crash::Everything);
    let mut used = 0;
    for at in 0.. {
        let disk = before.crash(Crash::Everything);
        let store = open(&disk).unwrap();
        disk.cut_at(disk.boundaries() + at);
        if store.backup_to("/data/copy", |_| {}).is_ok() {
            break;
        }
        drop(store);
        disk.revive();
        if !disk.exists(Path::new("/data/copy")).unwrap() {
            continue;
        }
        let copy = open_copy(&disk).unwrap();
        let mut txn = copy.begin_write().unwrap();
        txn.create_table("new", TableKind::Ordered).unwrap();
        txn.commit_with(Durability::Durable).unwrap();
        abandon(copy, &disk);
        let after = disk.crash(Crash::Nothing);
        assert!(
            after.exists(Path::new("/data/copy")).unwrap(),
            "process crash after {at} calls: the copy is gone"
        );
        assert!(open_copy(&after).unwrap().snapshot().unwrap().table("new").unwrap().is_some());
        used += 1;
    }
    assert!(used > 0);
}
