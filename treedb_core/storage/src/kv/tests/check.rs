//! Checks by several threads: they find what one finds, in files with any damage.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use treedb_testing::{Rng, seeds};

use super::*;
use crate::Error;
use crate::disk::crash::Crash;
use crate::page::PAGE_SIZE;

/// A closed store with trees of up to three levels, large values and trees of values.
fn deep() -> SimDisk {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let keys = txn.create_table("keys", TableKind::Ordered).unwrap();
    let rows = txn.create_table("rows", TableKind::Rows).unwrap();
    let pairs = txn.create_table("pairs", TableKind::Dup).unwrap();
    for n in 0..700_u32 {
        let mut key = n.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec();
        key.resize(300 + n as usize % 100, n as u8);
        txn.put(&keys, &key, &vec![n as u8; if n % 50 == 7 { 3000 } else { 40 }]).unwrap();
        for _ in 0..3 {
            txn.append_row(&rows, &vec![n as u8; if n % 90 == 3 { 5000 } else { 900 }]).unwrap();
        }
        txn.put_pair(&pairs, &(n % 9).to_be_bytes(), format!("value {n}").repeat(9).as_bytes()).unwrap();
    }
    txn.commit().unwrap();
    store.checkpoint().unwrap();
    // Free pages.
    let mut txn = store.begin_write().unwrap();
    for n in 500..900 {
        txn.delete_row(&rows, n).unwrap();
    }
    txn.commit().unwrap();
    let stats = store.begin_read().unwrap().all_table_stats().unwrap();
    assert!(
        stats.iter().any(|table| table.depth == 3) && stats.iter().all(|table| table.leaf_pages > 20),
        "{stats:?}"
    );
    store.close().unwrap();
    disk
}

#[test]
fn a_check_by_threads_finds_what_one_thread_finds() {
    for mode in [Mode::Mapped, Mode::Cached, Mode::Encrypted] {
        in_mode(mode, || {
            let store = open(&deep()).unwrap();
            let alone = store.check().unwrap();
            assert!(alone.large_values > 30 && alone.entries > 3000, "{alone:?}");
            for threads in [2, 4, 30] {
                assert_eq!(store.check_with(threads, |_| {}).unwrap(), alone, "{mode:?} {threads}");
            }
            // With changes that are not in the page file yet.
            let mut txn = store.begin_write().unwrap();
            let rows = txn.table("rows").unwrap().unwrap();
            (0..90).for_each(|_| txn.append_row(&rows, &[1; 700]).map(drop).unwrap());
            txn.commit().unwrap();
            assert_eq!(checked(&store).unwrap().entries, alone.entries + 90);
        });
    }
}

#[test]
fn progress_adds_up_to_the_entries() {
    let store = open(&deep()).unwrap();
    for threads in [1, 4] {
        let (sum, calls) = (AtomicU64::new(0), AtomicUsize::new(0));
        let report = store
            .check_with(threads, |entries| {
                sum.fetch_add(entries, Ordering::Relaxed);
                calls.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        assert_eq!(sum.into_inner(), report.entries);
        assert!(calls.into_inner() >= 3);
    }
}

#[test]
fn a_check_keeps_to_the_budget_of_the_cache() {
    for mode in [Mode::Cached, Mode::Encrypted] {
        in_mode(mode, || {
            let store = open(&deep()).unwrap();
            let most = AtomicUsize::new(0);
            let pages = store
                .check_with(4, |_| {
                    most.fetch_max(store.stats().cache.unwrap().present, Ordering::Relaxed);
                })
                .unwrap()
                .pages;
            let most = most.into_inner();
            assert!(pages > 600 && (1..=100).contains(&most), "{mode:?}: {most} of {pages} pages in memory");
        });
    }
}

/// Gives page `page` of a file the checksum of its bytes.
fn seal(file: &mut [u8], page: usize) {
    let page = &mut file[page * PAGE_SIZE..(page + 1) * PAGE_SIZE];
    let checksum = crc32c::crc32c(&page[4..]);
    page[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// Where a page of a file begins to have a payload.
fn payload(page: usize) -> usize {
    page * PAGE_SIZE + 16
}

#[test]
fn damage_with_right_checksums_is_the_same_for_any_number_of_threads() {
    let disk = deep();
    let path = dir().join("pages");
    let image = disk.contents(&path).unwrap();
    let pages = image.len() / PAGE_SIZE;
    let branches: Vec<usize> = (2..pages).filter(|&page| matches!(image[payload(page)], 2 | 4)).collect();
    assert!(branches.len() > 12);
    let mut found = BTreeMap::<String, u32>::new();
    for (seed, round) in seeds([14]).flat_map(|seed| (0..1500).map(move |round| (seed, round))) {
        let mut rng = Rng::new(seed.wrapping_mul(10_000) + round);
        let mut forged = image.clone();
        let any = |rng: &mut Rng| match rng.below(2) {
            0 => *rng.pick(&branches),
            _ => 2 + rng.below(pages - 2),
        };
        for _ in 0..1 + rng.below(3) {
            let page = any(&mut rng);
            let at = payload(page) + rng.below(PAGE_SIZE - 24);
            match rng.below(4) {
                0 => forged[at] = rng.below(256) as u8,
                // Another child, or one that is not in the file.
                1 => {
                    let number = if rng.below(9) == 0 { u32::MAX } else { any(&mut rng) as u32 };
                    let known = (payload(page)..(page + 1) * PAGE_SIZE - 4).find(|&at| {
                        let number = u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
                        (2..pages as u32).contains(&number) && at % 4 == 0 && at > payload(page) + 16
                    });
                    forged[known.unwrap_or(at)..][..4].copy_from_slice(&number.to_le_bytes());
                }
                2 => {
                    let from = payload(any(&mut rng));
                    forged.copy_within(from..from + PAGE_SIZE - 16, payload(page));
                }
                _ => {
                    let (from, len) = (payload(page) + rng.below(4000), rng.below(60));
                    forged.copy_within(from..from + len, at.min((page + 1) * PAGE_SIZE - 60));
                }
            }
            seal(&mut forged, page);
        }
        let disk = disk.crash(Crash::Everything);
        disk.overwrite(&path, forged);
        let outcome = in_mode(if round % 3 == 0 { Mode::Cached } else { Mode::Mapped }, || {
            open(&disk).and_then(|store| checked(&store))
        });
        let kind = match outcome {
            Ok(_) => "none".to_owned(),
            Err(Error::Corrupt(what)) => what.expected.chars().filter(|c| !c.is_ascii_digit()).collect(),
            Err(error) => error.to_string().chars().take(20).collect(),
        };
        *found.entry(kind).or_default() += 1;
    }
    let _ = writeln!(std::io::stdout().lock(), "\nsummary: kv check: forged pages: {found:?}");
    assert!(found.len() > 12 && found.get("a page in one place") > Some(&50), "{found:?}");
}
