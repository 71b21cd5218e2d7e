//! At least half of the value log is live after a checkpoint.

use std::collections::BTreeMap;

use treedb_testing::{Rng, seeds};

use super::*;

type Model = BTreeMap<(bool, u8), Vec<u8>>;

fn same(store: &Store, model: &Model) {
    let read = store.begin_read().unwrap();
    let (keys, rows) = (read.table("k").unwrap().unwrap(), read.table("r").unwrap().unwrap());
    for n in 0..40u8 {
        assert_eq!(read.get(&keys, &[n]).unwrap(), model.get(&(false, n)).map(Vec::as_slice));
        assert_eq!(read.row(&rows, n.into()).unwrap(), model.get(&(true, n)).map(Vec::as_slice));
    }
}

/// Random changes of large values, with snapshots, checkpoints and reopening.
fn run(seed: u64, steps: usize) {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new();
    let options = Options { value_segment_bytes: 32 << 10, ..options(&disk) };
    let open = || Store::open_with(dir(), options.clone()).unwrap();
    let mut store = open();
    let mut txn = store.begin_write().unwrap();
    let keys = txn.create_table("k", TableKind::Ordered).unwrap();
    let rows = txn.create_table("r", TableKind::Rows).unwrap();
    txn.commit().unwrap();
    let mut model = Model::new();
    let mut pinned: Option<(ReadTxn, Model)> = None;
    for i in 0..steps {
        let mut txn = store.begin_write().unwrap();
        let (k, value) = (1 + rng.below(39) as u8, vec![i as u8; 900 + rng.below(8000)]);
        match rng.below(31) {
            0..8 => {
                txn.put(&keys, &[k], &value).unwrap();
                model.insert((false, k), value);
            }
            8..16 => {
                txn.put_row(&rows, k.into(), &value).unwrap();
                model.insert((true, k), value);
            }
            16..20 => {
                txn.delete(&keys, &[k]).unwrap();
                model.remove(&(false, k));
            }
            20..24 => {
                txn.delete_row(&rows, k.into()).unwrap();
                model.remove(&(true, k));
            }
            24 => {
                txn.clear(&keys).unwrap();
                model.retain(|(row, _), _| *row);
            }
            25 => pinned = Some((store.begin_read().unwrap(), model.clone())),
            26 => pinned = None,
            27 => {
                drop(txn);
                pinned = None;
                store.close().unwrap();
                store = open();
                continue;
            }
            _ => {
                drop(txn);
                store.checkpoint().unwrap();
                if pinned.is_none() {
                    let values = store.stats().values;
                    assert!(values.live * 2 >= values.bytes, "seed {seed}, step {i}: {values:?}");
                }
                continue;
            }
        }
        txn.commit_with(Durability::Relaxed).unwrap();
        if let Some((read, then)) = &pinned {
            for ((_, k), value) in then.iter().filter(|((row, _), _)| !row) {
                assert_eq!(read.get(&keys, &[*k]).unwrap(), Some(value.as_slice()));
            }
        }
    }
    drop(pinned);
    same(&store, &model);
    store.checkpoint().unwrap();
    let values = store.stats().values;
    assert!(values.live * 2 >= values.bytes, "{values:?}");
    store.check().unwrap();
    same(&store, &model);
    drop(store);
    same(&open(), &model);
}

#[test]
fn half_of_the_value_log_is_live_after_a_checkpoint_without_readers() {
    for seed in seeds(0..40) {
        run(seed, 150);
    }
}

#[test]
fn values_of_deleted_keys_take_no_space() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let keys = txn.create_table("k", TableKind::Ordered).unwrap();
    for n in 0..100u8 {
        txn.put(&keys, &[n], &vec![n; 5000]).unwrap();
    }
    txn.commit().unwrap();
    store.checkpoint().unwrap();
    assert!(store.stats().values.bytes > 500_000);
    let mut txn = store.begin_write().unwrap();
    txn.clear(&keys).unwrap();
    txn.commit().unwrap();
    store.checkpoint().unwrap();
    let values = store.stats().values;
    assert_eq!((values.bytes, values.live, values.segments), (0, 0, 0));
    store.check().unwrap();
}
