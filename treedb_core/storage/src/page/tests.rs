//! The page file against a model: a root page and an array of pages filled with stamps, with pinned
//! snapshots, checkpoints, reopening and power cuts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use treedb_testing::{Rng, in_time, rounds, seeds};

use super::*;
use crate::Error;
use crate::disk::SimDisk;
use crate::disk::crash::Crash;

const DIR: &str = "/db";
pub(super) const OPTIONS: PagerOptions =
    PagerOptions { max_bytes: 32 << 20, growth: 16, cache: None, key: None };

fn path() -> PathBuf {
    Path::new(DIR).join("pages")
}

pub(super) fn fresh() -> SimDisk {
    let disk = SimDisk::with_dir(Path::new(DIR));
    Pager::create(&disk, &path(), None).unwrap();
    disk
}

/// The array: the root page contains the page numbers, each page is filled with its stamp.
pub(super) struct Array {
    pub(super) pager: Arc<Pager>,
    alloc: Allocator,
}

pub(super) fn root_of(bytes: &[u8; 16]) -> PageId {
    PageId(u32::from_le_bytes(bytes[..4].try_into().unwrap()))
}

pub(super) fn entry(payload: &[u8], i: usize) -> u32 {
    u32::from_le_bytes(payload[4 * i..4 * i + 4].try_into().unwrap())
}

impl Array {
    fn open(disk: &SimDisk) -> Result<(Array, Opened)> {
        Array::open_with(disk, OPTIONS)
    }

    pub(super) fn open_with(disk: &SimDisk, options: PagerOptions) -> Result<(Array, Opened)> {
        let (pager, alloc, opened) = Pager::open(disk, &path(), options)?;
        Ok((Array { pager: Arc::new(pager), alloc }, opened))
    }

    /// Changes the given entries in one transaction, which is published if `commit` is true and else rolled
    /// back.
    pub(super) fn change(&mut self, changes: &[(usize, u64)], commit: bool) -> Result<()> {
        let pager = Arc::clone(&self.pager);
        let _epoch = pager.enter_epoch();
        let pin = self.pager.pin();
        let mut root = root_of(pin.root());
        self.pager.unpin(&pin);
        self.pager.begin(&mut self.alloc);
        let mut body = || -> Result<PageId> {
            let mut pages = self.pager.writer(&mut self.alloc);
            if root == PageId::NONE {
                root = pages.allocate()?;
                pages.page_mut(root)?.fill(0);
            } else {
                root = pages.writable(root)?;
            }
            for &(i, stamp) in changes {
                let old = PageId(entry(pages.page(root)?, i));
                let new = match (old, stamp) {
                    (PageId::NONE, 0) => PageId::NONE,
                    (PageId::NONE, _) => pages.allocate()?,
                    (_, 0) => {
                        pages.free(old)?;
                        PageId::NONE
                    }
                    _ => pages.writable(old)?,
                };
                if new != PageId::NONE {
                    for word in pages.page_mut(new)?.chunks_mut(8) {
                        word.copy_from_slice(&stamp.to_le_bytes());
                    }
                }
                pages.page_mut(root)?[4 * i..4 * i + 4].copy_from_slice(&new.0.to_le_bytes());
            }
            Ok(root)
        };
        match body() {
            Ok(root) if commit => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&root.0.to_le_bytes());
                self.pager.publish(&mut self.alloc, &bytes);
                Ok(())
            }
            other => {
                self.pager.roll_back(&mut self.alloc);
                other.map(|_| ())
            }
        }
    }

    /// Reads the array as a pin sees it.
    fn read(&self, pin: &Pin, len: usize) -> Result<Vec<u64>> {
        let root = root_of(pin.root());
        if root == PageId::NONE {
            return Ok(vec![0; len]);
        }
        let list = self.pager.page(root)?.to_vec();
        (0..len)
            .map(|i| match entry(&list, i) {
                0 => Ok(0),
                page => {
                    let payload = self.pager.page(PageId(page))?;
                    let stamp = u64::from_le_bytes(payload[..8].try_into().unwrap());
                    assert!(payload.chunks(8).all(|w| w == stamp.to_le_bytes()), "a page of mixed stamps");
                    Ok(stamp)
                }
            })
            .collect()
    }

    fn now(&self, len: usize) -> Result<Vec<u64>> {
        let pin = self.pager.pin();
        let seen = self.read(&pin, len);
        self.pager.unpin(&pin);
        seen
    }

    pub(super) fn checkpoint(&mut self, lsn: u64) -> Result<()> {
        let state = lsn.to_le_bytes().repeat(700);
        let checkpoint = self.pager.start_checkpoint(&mut self.alloc, lsn, state)?;
        self.pager.finish_checkpoint(checkpoint)
    }

    fn account_pages(&self, len: usize) -> Result<u64> {
        let pin = self.pager.pin();
        let accounting = self.pager.account_pages(&self.alloc)?;
        let root = root_of(pin.root());
        if root != PageId::NONE {
            accounting.visit(root)?;
            let list = self.pager.page(root)?;
            for page in (0..len).map(|i| entry(list, i)).filter(|&page| page != 0) {
                accounting.visit(PageId(page))?;
            }
        }
        self.pager.unpin(&pin);
        accounting.finish()
    }
}

fn random_changes(rng: &mut Rng, len: usize, stamp: &mut u64) -> Vec<(usize, u64)> {
    (0..1 + rng.below(4))
        .map(|_| {
            *stamp += 1;
            (rng.below(len), if rng.chance(20) { 0 } else { *stamp })
        })
        .collect()
}

#[test]
fn a_page_that_is_cooled_while_it_is_adopted_is_not_evicted_unwritten() {
    const LEN: usize = 80;
    let disk = fresh();
    let (mut array, _) = Array::open_with(&disk, PagerOptions { cache: Some(16), ..OPTIONS }).unwrap();
    let mut model: Vec<u64> = vec![1; LEN];
    let all: Vec<_> = (0..LEN).map(|i| (i, 1)).collect();
    for some in all.chunks(10) {
        array.change(some, true).unwrap();
        array.pager.evict_for_writer();
    }
    array.checkpoint(1).unwrap();
    for round in 0..20 {
        // More pages are pinned than the cache should have, so that it cools every new page immediately.
        let pinned: Vec<_> = (0..24)
            .map(|i| {
                let _epoch = array.pager.enter_epoch();
                let pin = array.pager.pin();
                let page = PageId(entry(array.pager.page(root_of(pin.root())).unwrap(), (i + round) % LEN));
                array.pager.page(page).unwrap();
                array.pager.pin_page(page).unwrap();
                array.pager.unpin(&pin);
                page
            })
            .collect();
        let changes: Vec<_> = (30..42).map(|i| ((i + round) % LEN, 100 + round as u64)).collect();
        array.change(&changes, true).unwrap();
        changes.iter().for_each(|&(i, stamp)| model[i] = stamp);
        pinned.iter().for_each(|page| array.pager.cache().unwrap().unpin_page(page.0));
        for _ in 0..2 {
            let seen: Vec<_> = (0..LEN)
                .map(|i| {
                    let _epoch = array.pager.enter_epoch();
                    let pin = array.pager.pin();
                    let page = PageId(entry(array.pager.page(root_of(pin.root())).unwrap(), i));
                    let stamp = array.pager.page(page).unwrap()[0];
                    array.pager.unpin(&pin);
                    u64::from(stamp)
                })
                .collect();
            assert_eq!(seen, model, "round {round}");
        }
    }
}

#[cfg(not(miri))]
#[test]
fn a_cache_on_a_system_of_greater_pages_loses_nothing_and_keeps_to_its_budget() {
    const LEN: usize = 1000;
    for (unit, seed) in [4 << 10, 16 << 10, 64 << 10].into_iter().zip(seeds(0..3)) {
        crate::disk::test_unit::with(unit, || {
            let disk = fresh();
            let options = PagerOptions { cache: Some(16 * unit / PAGE_SIZE), ..OPTIONS };
            let (mut array, _) = Array::open_with(&disk, options).unwrap();
            let (mut rng, mut stamp, mut model) = (Rng::new(seed), 0, vec![0; LEN]);
            let (mut most, budget) = (0, array.pager.cache().unwrap().stats().budget);
            assert_eq!(budget, 16 * unit / PAGE_SIZE);
            for round in 0..rounds(1500) {
                let changes = random_changes(&mut rng, LEN, &mut stamp);
                array.change(&changes, true).unwrap();
                changes.iter().for_each(|&(i, stamp)| model[i] = stamp);
                array.pager.evict_for_writer();
                if rng.chance(3) {
                    array.checkpoint(round as u64).unwrap();
                }
                for _ in 0..8 {
                    let i = rng.below(LEN);
                    let _epoch = array.pager.enter_epoch();
                    let pin = array.pager.pin();
                    let page = entry(array.pager.page(root_of(pin.root())).unwrap(), i);
                    let stamp = match page {
                        0 => 0,
                        page => {
                            let payload = array.pager.page(PageId(page)).unwrap();
                            let stamp = u64::from_le_bytes(payload[..8].try_into().unwrap());
                            let all = payload.chunks(8).all(|word| word == stamp.to_le_bytes());
                            assert!(all, "a page of mixed stamps: unit {unit}, round {round}");
                            stamp
                        }
                    };
                    array.pager.unpin(&pin);
                    assert_eq!(stamp, model[i], "unit {unit}, round {round}");
                }
                most = most.max(array.pager.cache().unwrap().stats().present);
            }
            let stats = array.pager.cache().unwrap().stats();
            // The pages of one call, each in a piece of its own.
            assert!(most <= budget + 8 * unit / PAGE_SIZE, "unit {unit}: {most}, {stats:?}");
            assert!(stats.evictions > 1000, "unit {unit}: {stats:?}");
        });
    }
}

#[test]
fn snapshots_see_the_same_state_whatever_is_written_later() {
    const LEN: usize = 40;
    for seed in seeds(0..4) {
        let disk = fresh();
        let (mut array, _) = Array::open(&disk).unwrap();
        let mut rng = Rng::new(seed);
        let (mut model, mut stamp) = (vec![0u64; LEN], 0);
        let mut pinned: Vec<(Pin, Vec<u64>)> = Vec::new();
        for round in 0..rounds(1500) {
            let changes = random_changes(&mut rng, LEN, &mut stamp);
            let commit = rng.chance(90);
            array.change(&changes, commit).unwrap();
            if commit {
                changes.iter().for_each(|&(i, s)| model[i] = s);
            }
            assert_eq!(array.now(LEN).unwrap(), model);
            if rng.chance(10) {
                pinned.push((array.pager.pin(), model.clone()));
            }
            if rng.chance(8) && !pinned.is_empty() {
                let (pin, saw) = pinned.swap_remove(rng.below(pinned.len()));
                assert_eq!(array.read(&pin, LEN).unwrap(), saw, "seed {seed} round {round}");
                array.pager.unpin(&pin);
            }
            if rng.chance(3) {
                array.checkpoint(round as u64).unwrap();
            }
            if rng.chance(5) {
                array.account_pages(LEN).unwrap();
            }
        }
        for (pin, saw) in pinned {
            assert_eq!(array.read(&pin, LEN).unwrap(), saw);
            array.pager.unpin(&pin);
        }
        array.checkpoint(9999).unwrap();
        drop(array);
        let (array, opened) = Array::open(&disk).unwrap();
        assert_eq!((opened.meta.lsn, array.now(LEN).unwrap()), (9999, model));
        assert_eq!(opened.state, 9999u64.to_le_bytes().repeat(700));
        array.account_pages(LEN).unwrap();
    }
}

#[test]
fn a_pinned_reader_costs_one_copy_of_its_snapshot() {
    const LEN: usize = 300;
    let disk = fresh();
    let (mut array, _) = Array::open(&disk).unwrap();
    let all: Vec<(usize, u64)> = (0..LEN).map(|i| (i, 1)).collect();
    array.change(&all, true).unwrap();
    array.checkpoint(1).unwrap();
    let pin = array.pager.pin();
    let mut rng = Rng::new(7);
    for n in 0..rounds(5000) as u64 {
        array.change(&[(rng.below(LEN), n + 2)], true).unwrap();
        if n % 500 == 0 {
            array.checkpoint(n).unwrap();
        }
    }
    // Live pages, the pinned snapshot's, and the last checkpoint's.
    let counts = array.pager.counts(&array.alloc);
    assert!(counts.used < 3 * LEN as u32 + 60, "{counts:?}");
    assert_eq!(array.read(&pin, LEN).unwrap(), vec![1; LEN]);
    array.pager.unpin(&pin);
    array.checkpoint(9).unwrap();
    array.change(&[(0, 1)], true).unwrap();
    array.pager.begin(&mut array.alloc);
    assert!(array.pager.counts(&array.alloc).kept < 10);
    array.pager.roll_back(&mut array.alloc);
}

#[test]
fn without_readers_or_checkpoints_pages_are_reused_immediately() {
    let disk = fresh();
    let (mut array, _) = Array::open(&disk).unwrap();
    for n in 1..2000 {
        array.change(&[(3, n)], true).unwrap();
    }
    assert!(array.pager.counts(&array.alloc).used < 12);
}

#[test]
fn a_power_cut_leaves_the_last_checkpoint_or_the_one_being_written() {
    const LEN: usize = 25;
    let disk = fresh();
    let (mut array, _) = Array::open(&disk).unwrap();
    disk.record();
    let mut rng = Rng::new(11);
    let (mut model, mut stamp) = (vec![0u64; LEN], 0);
    // Boundary when it was acknowledged, LSN, contents.
    let mut checkpoints = vec![(0, 0, model.clone())];
    let mut begun = vec![(0, 0)];
    for lsn in 1..=12 {
        for _ in 0..6 {
            let changes = random_changes(&mut rng, LEN, &mut stamp);
            array.change(&changes, true).unwrap();
            changes.iter().for_each(|&(i, s)| model[i] = s);
        }
        begun.push((disk.boundaries(), lsn));
        array.checkpoint(lsn).unwrap();
        checkpoints.push((disk.boundaries(), lsn, model.clone()));
    }
    let mut images = 0;
    let mut replay = disk.replay();
    while let Some(point) = replay.next_point() {
        let acked = checkpoints.iter().filter(|c| c.0 <= point).map(|c| c.1).max().unwrap();
        let started = begun.iter().filter(|b| b.0 <= point).map(|b| b.1).max().unwrap();
        for crash in Crash::variants(point, 8) {
            let (array, opened) = Array::open(&replay.crash(crash)).unwrap();
            let lsn = opened.meta.lsn;
            assert!(lsn >= acked && lsn <= started, "{crash:?} at {point}: {lsn} not in {acked}..={started}");
            assert_eq!(array.now(LEN).unwrap(), checkpoints[lsn as usize].2, "{crash:?} at {point}");
            array.account_pages(LEN).unwrap();
            images += 1;
        }
    }
    assert!(images > 500, "{images}");
    println!("page file: {images} crash images, 0 violations");
}

#[test]
fn every_flipped_byte_is_detected_or_harmless() {
    const LEN: usize = 6;
    let disk = fresh();
    let (mut array, _) = Array::open(&disk).unwrap();
    for lsn in 1..=3 {
        array.change(&(0..LEN).map(|i| (i, lsn * 10 + i as u64)).collect::<Vec<_>>(), true).unwrap();
        array.checkpoint(lsn).unwrap();
    }
    let want = array.now(LEN).unwrap();
    drop(array);
    let whole = disk.contents(&path()).unwrap();
    let mut found = 0;
    for at in (0..whole.len()).filter(|at| at % 4096 < 40 || at % 97 == 0 || at % 4096 > 4088 || *at < 8192) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        let disk = SimDisk::with_dir(Path::new(DIR));
        disk.overwrite(&path(), bytes);
        let outcome = Array::open(&disk).and_then(|(array, opened)| Ok((array.now(LEN)?, opened)));
        match outcome {
            // The page belongs to an older checkpoint or is free, or an older checkpoint is used and the
            // damage reported.
            Ok((seen, opened)) => {
                if let Some(damage) = &opened.other {
                    assert!(at < 8192 && damage.offset / 4096 == at as u64 / 4096, "{damage}");
                }
                if opened.meta.lsn == 3 {
                    assert_eq!(seen, want, "byte {at}");
                } else {
                    assert!(opened.other.is_some(), "byte {at}");
                }
            }
            Err(Error::Corrupt(damage)) => {
                found += 1;
                assert_eq!(damage.file, path());
                assert_eq!(damage.offset / 4096, at as u64 / 4096, "{damage}");
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    assert!(found > 100);
}

#[test]
fn a_truncated_or_foreign_file_is_a_typed_error() {
    let disk = fresh();
    let (mut array, _) = Array::open(&disk).unwrap();
    array.change(&[(0, 1), (1, 2)], true).unwrap();
    array.checkpoint(1).unwrap();
    drop(array);
    let whole = disk.contents(&path()).unwrap();
    for len in [0, 1, 100, 4096, 8191, 8192, 4096 * 4] {
        disk.overwrite(&path(), whole[..len].to_vec());
        match Array::open(&disk) {
            Err(Error::Corrupt(damage)) => assert!(damage.offset <= len as u64, "{damage}"),
            other => panic!("{len} bytes: {:?}", other.err()),
        }
    }
    disk.overwrite(&path(), vec![b'x'; 20_000]);
    assert!(matches!(Array::open(&disk), Err(Error::Format { .. })));
    let mut newer = whole;
    for page in 0..2 {
        newer[page * 4096 + 8] = 2;
        let sum = crc32c::crc32c(&newer[page * 4096..page * 4096 + 4092]).to_le_bytes();
        newer[page * 4096 + 4092..page * 4096 + 4096].copy_from_slice(&sum);
    }
    disk.overwrite(&path(), newer);
    match Array::open(&disk) {
        Err(Error::Format { what, .. }) => assert!(what.contains("format 2"), "{what}"),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn a_full_disk_is_an_error_before_anything_is_written_and_later_writes_can_succeed() {
    let disk = fresh();
    let (mut array, _) = Array::open(&disk).unwrap();
    disk.set_room(Some(200_000));
    let mut grown = 0;
    let error = loop {
        match array.change(&[(grown, 5)], true) {
            Ok(()) => grown += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert!(grown > 10);
    assert_eq!(array.now(grown + 1).unwrap()[..grown], vec![5; grown], "reads still work");
    array.account_pages(grown).unwrap();
    disk.set_room(None);
    array.change(&[(grown, 5)], true).unwrap();
    array.checkpoint(1).unwrap();
    array.account_pages(grown + 1).unwrap();
}

#[test]
fn many_concurrent_pins_are_all_honoured() {
    let disk = fresh();
    let (mut array, _) = Array::open(&disk).unwrap();
    let mut pins = Vec::new();
    for n in 1..=300u64 {
        array.change(&[(0, n)], true).unwrap();
        pins.push((n, array.pager.pin()));
    }
    assert_eq!(array.pager.pinned().len(), 300);
    for (n, pin) in &pins {
        assert_eq!(array.read(pin, 1).unwrap(), [*n]);
    }
    pins.iter().for_each(|(_, pin)| array.pager.unpin(pin));
    assert!(array.pager.pinned().is_empty());
}

#[test]
fn readers_on_other_threads_see_whole_transactions() {
    in_time(|| {
        const LEN: usize = 8;
        let disk = fresh();
        let (mut array, _) = Array::open(&disk).unwrap();
        array.change(&(0..LEN).map(|i| (i, 1)).collect::<Vec<_>>(), true).unwrap();
        let pager = Arc::clone(&array.pager);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let view = Array { pager: Arc::clone(&pager), alloc: Allocator::default() };
                    while !stop.load(Ordering::Relaxed) {
                        let pin = pager.pin();
                        let seen = view.read(&pin, LEN).unwrap();
                        assert!(seen.iter().all(|&s| s == seen[0]), "{seen:?}");
                        assert_eq!(view.read(&pin, LEN).unwrap(), seen);
                        pager.unpin(&pin);
                    }
                });
            }
            for n in 2..rounds(4000) as u64 {
                array.change(&(0..LEN).map(|i| (i, n)).collect::<Vec<_>>(), true).unwrap();
                if n % 300 == 0 {
                    array.checkpoint(n).unwrap();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(array.pager.counts(&array.alloc).used < 80);
    });
}

#[test]
fn a_checkpoint_is_pinned_from_its_start_until_after_it_is_durable() {
    in_time(|| {
        let (mut array, _) = Array::open(&fresh()).unwrap();
        for round in 1..=rounds(400) {
            array.change(&[(round % 8, round as u64)], true).unwrap();
            let checkpoint = array.pager.start_checkpoint(&mut array.alloc, 0, Vec::new()).unwrap();
            let (txn, pager, done) = (checkpoint.txn(), Arc::clone(&array.pager), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    pager.finish_checkpoint(checkpoint).unwrap();
                    done.store(true, Ordering::SeqCst);
                });
                while !done.load(Ordering::SeqCst) {
                    array.pager.begin(&mut array.alloc);
                    assert!(array.alloc.pins.contains(&txn), "round {round}");
                    array.pager.roll_back(&mut array.alloc);
                }
            });
        }
    });
}

#[test]
fn pages_of_a_savepoint_are_kept_until_it_is_released() {
    let (mut array, _) = Array::open(&fresh()).unwrap();
    array.change(&[(1, 7)], true).unwrap();
    let (pager, alloc) = (Arc::clone(&array.pager), &mut array.alloc);
    let before = pager.current();
    pager.begin(alloc);
    let page = pager.writer(alloc).allocate().unwrap();
    assert_eq!(pager.writer(alloc).writable(page).unwrap(), page, "it is this transaction's own");
    pager.writer(alloc).page_mut(page).unwrap()[0] = 1;
    alloc.savepoint();
    assert!(pager.writer(alloc).page_mut(page).is_err());
    let copy = pager.writer(alloc).writable(page).unwrap();
    assert_ne!(copy, page);
    pager.writer(alloc).page_mut(copy).unwrap()[0] = 2;
    // Pages allocated and freed after the savepoint are reused immediately; pages freed that existed before
    // are not.
    let other = pager.writer(alloc).allocate().unwrap();
    pager.writer(alloc).free(other).unwrap();
    assert_eq!(pager.writer(alloc).allocate().unwrap(), other);
    alloc.rollback_to(0);
    assert_eq!(pager.page(page).unwrap()[0], 1);
    let again: Vec<_> = (0..2).map(|_| pager.writer(alloc).allocate().unwrap()).collect();
    assert!(again.contains(&copy) && again.contains(&other), "pages allocated since are reused");
    assert_ne!(pager.writer(alloc).writable(page).unwrap(), page, "the savepoint still exists");
    alloc.rollback_to(0);
    alloc.release_savepoint(0);
    assert_eq!(pager.writer(alloc).writable(page).unwrap(), page);
    pager.writer(alloc).free(page).unwrap();
    let pin = pager.pin();
    let root = *pin.root();
    pager.unpin(&pin);
    assert_eq!(pager.publish(alloc, &root), before + 3, "even and odd numbers alternate");
    assert_eq!(alloc.counts().live, 2, "the array's root and its entry");
}
