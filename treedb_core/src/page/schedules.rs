//! Orders in which readers and the writer may take their steps on the slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::slots::Slots;
use crate::sync::{schedules, thread};

fn root(txn: u64) -> [u8; 16] {
    let mut root = [0; 16];
    root[..8].copy_from_slice(&txn.to_le_bytes());
    root[8..].copy_from_slice(&(!txn).to_le_bytes());
    root
}

#[test]
fn what_a_reader_pinned_is_whole_and_stays_until_it_lets_go() {
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
