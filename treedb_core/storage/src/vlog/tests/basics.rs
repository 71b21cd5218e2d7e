//! Tests of the value log without power cuts, and of the errors it returns for damage.

use std::sync::Mutex;

use treedb_testing::in_time;

use super::*;
use crate::Error;
use crate::disk::RealDisk;
use crate::disk::sim::{Fault, SimDisk};

#[test]
fn values_of_any_length_are_read_before_and_after_a_checkpoint() {
    let dir = TempDir::new();
    let log = open(RealDisk, &dir.0, ValueLogState::default()).unwrap();
    let lengths = [0, 1, 495, 496, 497, 1024, 5000, 20_000, 300_000, 3];
    let mut kept = Vec::new();
    for (i, len) in lengths.into_iter().enumerate() {
        let bytes = value(i as u64, len);
        let ptr = log.append(format!("owner {i}").as_bytes(), &bytes).unwrap();
        kept.push((ptr, bytes));
    }
    for (ptr, bytes) in &kept {
        assert_eq!(log.get(*ptr).unwrap(), bytes);
    }
    let state = checkpoint(&log).unwrap();
    drop(log);
    let log = open(RealDisk, &dir.0, state).unwrap();
    for (ptr, bytes) in &kept {
        assert_eq!(log.get(*ptr).unwrap(), bytes);
        assert_eq!(log.get(*ptr).unwrap(), bytes, "verified once, read again");
    }
    // The owners can be walked.
    let ids: std::collections::BTreeSet<u32> = kept.iter().map(|k| k.0.segment).collect();
    let mut walked = Vec::new();
    for id in ids {
        for record in log.records(id).unwrap() {
            let record = record.unwrap();
            walked.push((record.ptr, record.value.to_vec(), record.owner.to_vec()));
        }
    }
    let expected: Vec<_> = kept
        .iter()
        .enumerate()
        .map(|(i, (ptr, bytes))| (*ptr, bytes.clone(), format!("owner {i}").into_bytes()))
        .collect();
    assert_eq!(walked, expected);
}

#[test]
fn a_value_of_sixty_megabytes_is_one_slice() {
    let dir = TempDir::new();
    let log = ValueLog::open(Arc::new(RealDisk), &dir.0, ValueLogOptions::default()).unwrap();
    let small = log.append(b"a", b"small").unwrap();
    let bytes = vec![7u8; 60 << 20];
    let large = log.append(b"b", &bytes).unwrap();
    let larger = log.append(b"c", &vec![8u8; 70 << 20]).unwrap();
    assert_eq!(log.get(small).unwrap(), b"small");
    assert!(log.get(large).unwrap() == bytes);
    assert_eq!(log.get(larger).unwrap().len(), 70 << 20);
    assert_eq!(log.stats().segments, 2, "the largest has its own segment");
}

#[test]
fn a_small_log_is_a_small_file() {
    let dir = TempDir::new();
    let log = ValueLog::open(Arc::new(RealDisk), &dir.0, ValueLogOptions::default()).unwrap();
    log.append(b"", &value(1, 2000)).unwrap();
    let bytes: u64 = std::fs::read_dir(&dir.0).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 128 * 1024, "{bytes}");
}

#[test]
fn values_appended_since_the_checkpoint_are_lost_and_their_space_is_reused() {
    let dir = TempDir::new();
    let log = open(RealDisk, &dir.0, ValueLogState::default()).unwrap();
    let kept = log.append(b"k", &value(1, 3000)).unwrap();
    let state = checkpoint(&log).unwrap();
    let lost: Vec<ValuePtr> = (0..20).map(|i| log.append(b"k", &value(100 + i, 3000)).unwrap()).collect();
    assert!(log.stats().segments > 2);
    drop(log);
    let log = open(RealDisk, &dir.0, state.clone()).unwrap();
    assert_eq!(log.stats().segments, 1);
    assert_eq!(
        std::fs::read_dir(&dir.0).unwrap().count(),
        1,
        "segments that no checkpoint names are removed"
    );
    assert_eq!(log.state(), state);
    for ptr in &lost {
        assert!(matches!(log.get(*ptr), Err(Error::Corrupt(_))));
    }
    let again: Vec<ValuePtr> = (0..20).map(|i| log.append(b"k", &value(200 + i, 3000)).unwrap()).collect();
    assert_eq!(log.get(kept).unwrap(), value(1, 3000));
    for (i, (old, new)) in lost.iter().zip(&again).enumerate() {
        assert_eq!((old.segment, old.offset), (new.segment, new.offset));
        assert_eq!(log.get(*new).unwrap(), value(200 + i as u64, 3000));
        assert!(matches!(log.get(*old), Err(Error::Corrupt(_))), "an old pointer to a new value");
    }
}

#[test]
fn empty_segments_are_removed_after_the_checkpoint_that_no_longer_names_them() {
    let dir = TempDir::new();
    let log = open(RealDisk, &dir.0, ValueLogState::default()).unwrap();
    let ptrs: Vec<ValuePtr> = (0..40).map(|i| log.append(b"k", &value(i, 3000)).unwrap()).collect();
    let state = checkpoint(&log).unwrap();
    assert_eq!(clean(&log, &state).unwrap(), 0);
    let before = log.stats().segments;
    for ptr in &ptrs[..30] {
        log.release(*ptr).unwrap();
    }
    assert!(log.removable(&state).is_empty(), "the durable state still names them");
    let state = checkpoint(&log).unwrap();
    let gone = clean(&log, &state).unwrap();
    assert!(gone >= 5 && log.stats().segments == before - gone, "{gone}");
    assert!(matches!(log.get(ptrs[0]), Err(Error::Corrupt(_))));
    for (i, ptr) in ptrs.iter().enumerate().skip(30) {
        assert_eq!(log.get(*ptr).unwrap(), value(i as u64, 3000));
    }
    drop(log);
    let log = open(RealDisk, &dir.0, state).unwrap();
    assert_eq!(log.get(ptrs[39]).unwrap(), value(39, 3000));
    assert!(matches!(log.release(ptrs[0]), Err(Error::Corrupt(_))), "released twice");
}

#[test]
fn moving_the_live_values_of_sparse_segments_bounds_the_garbage() {
    let dir = TempDir::new();
    let log = open(RealDisk, &dir.0, ValueLogState::default()).unwrap();
    // 60 keys, repeatedly overwritten at random: the table of the owner tells which values are live.
    let mut table: Vec<Option<(ValuePtr, u64)>> = vec![None; 60];
    let mut rng = treedb_testing::Rng::new(5);
    let mut largest = 0;
    for round in 0..40u64 {
        for i in 0..50 {
            let key = rng.below(60);
            let tag = round * 1000 + i;
            let ptr = log.append(&(key as u64).to_le_bytes(), &value(tag, 1500)).unwrap();
            if let Some((old, _)) = table[key].replace((ptr, tag)) {
                log.release(old).unwrap();
            }
        }
        for id in log.sparse() {
            let records: Vec<_> = log.records(id).unwrap().map(|r| r.unwrap()).collect();
            for record in records {
                let key = u64::from_le_bytes((*record.owner).try_into().unwrap()) as usize;
                if let Some((ptr, tag)) = table[key].filter(|(ptr, _)| *ptr == record.ptr) {
                    let moved = log.append(&record.owner, &record.value).unwrap();
                    log.release(ptr).unwrap();
                    table[key] = Some((moved, tag));
                }
            }
        }
        let state = checkpoint(&log).unwrap();
        clean(&log, &state).unwrap();
        assert!(log.sparse().is_empty());
        let stats = log.stats();
        assert!(stats.live * 2 + 32 * 1024 >= stats.bytes, "{stats:?}");
        largest = largest.max(stats.bytes);
    }
    for (ptr, tag) in table.into_iter().flatten() {
        assert_eq!(log.get(ptr).unwrap(), value(tag, 1500));
    }
    println!("value log: 60 live values of 1.5 KB, at most {largest} bytes");
}

#[test]
fn a_flipped_byte_anywhere_is_an_error_or_harmless() {
    let disk = SimDisk::with_dir(Path::new(DIR));
    let log = open(disk.clone(), Path::new(DIR), ValueLogState::default()).unwrap();
    let mut kept = Vec::new();
    for i in 0..12 {
        let bytes = value(i, i as usize * 300);
        kept.push((log.append(b"the owner", &bytes).unwrap(), bytes));
    }
    let state = checkpoint(&log).unwrap();
    drop(log);
    let (mut reported, mut all) = (0, 0);
    for id in state.segments.iter().map(|s| s.id) {
        let path = Path::new(DIR).join(super::super::segment::name(id));
        let clean = disk.contents(&path).unwrap();
        for at in (0..clean.len()).filter(|at| *at < 64 || at % 3 == 0) {
            all += 1;
            let image = disk.crash(crate::disk::crash::Crash::Nothing);
            let mut bytes = clean.clone();
            bytes[at] ^= 1 << (at % 8);
            image.overwrite(&path, bytes);
            let log = match open(image, Path::new(DIR), state.clone()) {
                Ok(log) => log,
                Err(Error::Corrupt(_) | Error::Format { .. }) => {
                    reported += 1;
                    continue;
                }
                Err(other) => panic!("{other}"),
            };
            let mut seen = at < 64;
            for (ptr, bytes) in &kept {
                match log.get(*ptr) {
                    Ok(found) => assert!(found == bytes, "byte {at}: a wrong value"),
                    Err(Error::Corrupt(c)) => {
                        assert_eq!(c.file, path);
                        seen = true;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            for record in log.records(id).unwrap() {
                let Ok(record) = record else { break };
                assert!(kept.iter().any(|(ptr, bytes)| *ptr == record.ptr && *record.value == **bytes));
            }
            reported += u32::from(seen);
        }
    }
    println!("value log: {all} flips, {reported} reported, the others in padding or unused space");
    assert!(reported > 6000);
}

#[test]
fn missing_and_short_segments_are_reported_at_open() {
    let disk = SimDisk::with_dir(Path::new(DIR));
    let log = open(disk.clone(), Path::new(DIR), ValueLogState::default()).unwrap();
    for i in 0..12 {
        log.append(b"", &value(i, 3000)).unwrap();
    }
    let state = checkpoint(&log).unwrap();
    for s in &state.segments {
        let path = Path::new(DIR).join(super::super::segment::name(s.id));
        let bytes = disk.contents(&path).unwrap();
        for len in [0, 63, 512, s.end as usize - 1] {
            let image = disk.crash(crate::disk::crash::Crash::Nothing);
            image.overwrite(&path, bytes[..len].to_vec());
            match open(image, Path::new(DIR), state.clone()).map(|_| ()) {
                Err(Error::Corrupt(c)) => assert_eq!(c.file, path),
                other => panic!("{other:?}"),
            }
        }
        let image = disk.crash(crate::disk::crash::Crash::Nothing);
        image.remove(&path).unwrap();
        assert!(matches!(open(image, Path::new(DIR), state.clone()), Err(Error::Corrupt(_))));
    }
}

#[test]
fn invalid_pointers_are_errors() {
    let dir = TempDir::new();
    let log = open(RealDisk, &dir.0, ValueLogState::default()).unwrap();
    let good = log.append(b"o", &value(1, 2000)).unwrap();
    let mut rng = treedb_testing::Rng::new(9);
    for _ in 0..20_000 {
        let mut bytes = good.to_bytes();
        bytes[rng.below(16)] = rng.next_u64() as u8;
        bytes[rng.below(16)] ^= 1 << rng.below(8);
        let ptr = ValuePtr::from_bytes(bytes);
        if ptr != good {
            assert!(matches!(log.get(ptr), Err(Error::Corrupt(_))), "{ptr:?}");
        }
    }
}

#[test]
fn a_full_disk_refuses_the_value_and_a_failed_call_poisons() {
    let disk = SimDisk::with_dir(Path::new(DIR));
    let log = open(disk.clone(), Path::new(DIR), ValueLogState::default()).unwrap();
    let first = log.append(b"", &value(1, 2000)).unwrap();
    disk.set_room(Some(disk.used() + 10_000));
    let mut refused = 0;
    for i in 0..30 {
        match log.append(b"", &value(i, 4000)) {
            Ok(ptr) => assert_eq!(log.get(ptr).unwrap(), value(i, 4000)),
            Err(Error::DiskFull { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 10);
    disk.set_room(None);
    let ptr = log.append(b"", &value(9, 4000)).unwrap();
    disk.fail_at(disk.tried(), Fault::Io, false);
    assert!(matches!(log.sync(), Err(Error::Poisoned { .. })));
    assert!(matches!(log.sync(), Err(Error::Poisoned { .. })), "a flush is not retried");
    assert!(matches!(log.append(b"", b"x"), Err(Error::Poisoned { .. })));
    assert_eq!(log.get(ptr).unwrap(), value(9, 4000), "reads still work");
    assert_eq!(log.get(first).unwrap(), value(1, 2000));
}

#[test]
fn readers_and_the_writer_do_not_wait_for_each_other() {
    in_time(|| {
        let dir = TempDir::new();
        let log = open(RealDisk, &dir.0, ValueLogState::default()).unwrap();
        let published = Mutex::new(Vec::<(ValuePtr, u64)>::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..2000 {
                    let ptr = log.append(b"o", &value(i, 700)).unwrap();
                    published.lock().unwrap().push((ptr, i));
                }
            });
            for seed in 0..2 {
                let (log, published) = (&log, &published);
                scope.spawn(move || {
                    let mut rng = treedb_testing::Rng::new(seed);
                    for _ in 0..3000 {
                        let all = published.lock().unwrap();
                        if all.is_empty() {
                            continue;
                        }
                        let (ptr, tag) = all[rng.below(all.len())];
                        drop(all);
                        assert_eq!(log.get(ptr).unwrap(), value(tag, 700));
                    }
                });
            }
        });
    });
}
