//! Crashes of the process, and failing calls.

use super::super::*;
use super::model::{digest, dump};
use super::run::{MIXED, Profile, Run};
use super::{abandon, summary};
use crate::disk::crash::Crash;
use crate::disk::sim::Fault;

#[test]
fn a_process_crash_followed_by_a_power_cut_loses_no_acknowledged_commit() {
    let profile =
        Profile { name: "process death", large: 10, steps: 40, checkpoint: 20, relaxed: 40, ..MIXED };
    let mut whole = Run::new(profile, 7);
    whole.go().unwrap().close().unwrap();
    let end = whole.disk.boundaries();
    let (mut deaths, mut images) = (0, 0);
    for at in (0..end).step_by(3) {
        let mut run = Run::new(profile, 7);
        run.disk.cut_at(at);
        assert!(run.go().and_then(Store::close).is_err());
        run.disk.revive();
        deaths += 1;
        // What is only in the operating system's memory is not durable until recovery makes it durable.
        run.disk.record();
        let survivors = run.allowed(at, &[Durability::Durable, Durability::Relaxed]);
        let (reborn, found) =
            run.verify(&run.disk, &survivors, &|| format!("process death after {at} calls"));
        let mut txn = reborn.begin_write().unwrap();
        let table = txn.open_table("reborn", TableKind::Ordered).unwrap();
        for n in 0..30u8 {
            txn.put(&table, &[n], &[n; 400]).unwrap();
        }
        txn.commit().unwrap();
        let acked = run.disk.boundaries();
        let mut replay = run.disk.replay();
        drop(reborn);
        let allowed = run.allowed(at, &[Durability::Durable]);
        while let Some(point) = replay.next_point() {
            for crash in [Crash::Nothing, Crash::OddSectors, Crash::Random(point), Crash::Random(point ^ at)]
            {
                let what = || format!("process death after {at} calls, power cut after {point}, {crash:?}");
                let disk = replay.crash(crash);
                let store = open(&disk).unwrap_or_else(|e| panic!("{}: {e}", what()));
                store.check().unwrap_or_else(|e| panic!("{}: {e}", what()));
                let mut state = dump(&store).unwrap();
                abandon(store, &disk);
                let reborn = state.remove("reborn");
                let state = digest(&state);
                assert!(reborn.as_ref().is_none_or(|t| t.len() == 30), "{}", what());
                assert!(point < acked || reborn.is_some() && state == found, "{}", what());
                assert!(allowed.contains_key(&state), "{}", what());
                images += 1;
            }
        }
    }
    summary(&format!(
        "process death: {deaths} deaths, then {images} power cuts at all boundaries of what came after"
    ));
}

#[test]
fn a_failed_call_anywhere_gives_an_error_and_loses_no_acknowledged_commit() {
    let profile = Profile {
        name: "failed calls",
        large: 15,
        steps: 30,
        checkpoint: 15,
        ddl: 5,
        reopen: 5,
        durable: 45,
        relaxed: 40,
        pending: 1500,
        ..MIXED
    };
    let mut whole = Run::new(profile, 8);
    whole.go().unwrap().close().unwrap();
    let end = whole.disk.tried();
    let (mut failures, mut harmless) = (0, 0);
    for call in 0..end {
        for (fault, sticky) in [(Fault::Io, false), (Fault::Io, true), (Fault::Full, false)] {
            let mut run = Run::new(profile, 8);
            run.disk.fail_at(call, fault, sticky);
            match run.go() {
                Ok(store) => {
                    harmless += 1;
                    drop(store);
                }
                Err(_) => failures += 1,
            }
            run.disk.heal();
            let point = run.disk.boundaries();
            for crash in [Crash::Everything, Crash::Nothing, Crash::Random(call)] {
                let what = || format!("call {call} failed with {fault:?} (sticky: {sticky}), then {crash:?}");
                run.verify(&run.disk.crash(crash), &run.allowed(point, &[Durability::Durable]), &what);
            }
        }
    }
    summary(&format!("failed calls: {end} calls x 3 faults, {failures} failed runs, {harmless} unharmed"));
    assert!(failures as u64 > end);
}
