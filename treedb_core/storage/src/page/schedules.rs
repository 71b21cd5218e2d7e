//! Thread schedules of readers and the writer over the reader table and the page cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::slots::Slots;
use super::tests::{Array, OPTIONS, entry, fresh, root_of};
use super::{PageId, PageSource, PagerOptions};
use crate::sync::{schedules, thread};

fn root(txn: u64) -> [u8; 16] {
    let mut root = [0; 16];
    root[..8].copy_from_slice(&txn.to_le_bytes());
    root[8..].copy_from_slice(&(!txn).to_le_bytes());
    root
}

#[test]
fn pages_a_reader_pinned_are_whole_and_kept_until_it_ends() {
    const LAST: u64 = 6;
    schedules("readers and the writer at the slots", 20_000, || {
        let slots = Arc::new(Slots::new(1, &root(1)));
        // What the writer would have used again. No lock of the code under test, so no point of the schedule.
        let gone: Arc<[AtomicBool; LAST as usize + 1]> = Arc::default();
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let (slots, gone) = (Arc::clone(&slots), Arc::clone(&gone));
                thread::spawn(move || {
                    let mut last = 0;
                    for _ in 0..2 {
                        let pin = slots.pin();
                        assert_eq!(*pin.root(), root(pin.txn()), "half a root");
                        assert!(pin.txn() >= last, "time went back");
                        last = pin.txn();
                        for _ in 0..2 {
                            assert!(
                                !gone[last as usize].load(Ordering::SeqCst),
                                "{last} went under its reader"
                            );
                            thread::yield_now();
                        }
                        slots.release(&pin);
                    }
                })
            })
            .collect();
        let mut pinned = Vec::new();
        for txn in 2..=LAST {
            slots.publish(txn, &root(txn));
            pinned.clear();
            slots.survey(&mut pinned);
            for old in (1..txn).filter(|old| !pinned.contains(old)) {
                gone[old as usize].store(true, Ordering::SeqCst);
            }
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        pinned.clear();
        slots.pinned(&mut pinned);
        assert!(pinned.is_empty(), "{pinned:?} are still pinned");
    });
}

/// The stamp all over a page.
fn stamp(payload: &[u8]) -> u64 {
    let stamp = u64::from_le_bytes(payload[..8].try_into().unwrap());
    assert!(
        payload.chunks(8).all(|word| word == stamp.to_le_bytes()),
        "a page that was stored to, or has left"
    );
    stamp
}

#[test]
fn a_page_being_read_stays_in_the_cache_unchanged() {
    const LEN: usize = 60;
    schedules("readers, pins, the writer and a checkpoint at a small page cache", 400, || {
        let disk = fresh();
        let (mut array, _) = Array::open_with(&disk, PagerOptions { cache: Some(16), ..OPTIONS }).unwrap();
        let all: Vec<_> = (0..LEN).map(|i| (i, 1)).collect();
        for some in all.chunks(10) {
            array.change(some, true).unwrap();
            array.pager.evict_for_writer();
        }
        array.checkpoint(1).unwrap();
        let pager = Arc::clone(&array.pager);
        let readers: Vec<_> = (0..2usize)
            .map(|reader| {
                let pager = Arc::clone(&pager);
                thread::spawn(move || {
                    for round in 0..2usize {
                        let pin = pager.pin();
                        let page = |i: usize| {
                            let list = pager.page(root_of(pin.root())).unwrap();
                            PageId(entry(list, (i * 7 + reader * 31 + round * 17) % LEN))
                        };
                        let epoch = pager.enter_epoch();
                        let on = page(0);
                        let held = pager.page(on).unwrap();
                        pager.pin_page(on).unwrap();
                        drop(epoch);
                        let found = stamp(held);
                        for i in 1..9 {
                            let _epoch = pager.enter_epoch();
                            let seen = pager.page(page(i)).unwrap();
                            let first = stamp(seen);
                            stamp(pager.page(page(i + 20)).unwrap());
                            assert_eq!(stamp(seen), first, "a page changed within an epoch");
                        }
                        assert_eq!(stamp(held), found, "a held page changed");
                        pager.cache().unwrap().unpin_page(on.0);
                        pager.unpin(&pin);
                    }
                })
            })
            .collect();
        let writer = thread::spawn(move || {
            for txn in 2..5usize {
                let some: Vec<_> = (0..12).map(|i| ((i * 5 + txn) % LEN, txn as u64)).collect();
                array.change(&some, txn != 3).unwrap();
                array.pager.evict_for_writer();
                if txn == 3 {
                    array.checkpoint(txn as u64).unwrap();
                }
            }
        });
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        writer.join().unwrap();
        let stats = pager.cache_stats().unwrap();
        assert!(stats.misses > 0 && stats.evictions > 0, "{stats:?}");
        assert!(pager.pinned().is_empty());
    });
}
