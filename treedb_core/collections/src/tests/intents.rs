//! Writes beside open transactions: who fails, who waits, and for how long.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bson::{DateTime, rawdoc};
use treedb_testing::{Rng, rounds, seeds};

use super::*;
use crate::{
    AggregateRequest, Collection, DeleteRequest, FindAndModifyRequest, IndexSpec, Transaction, UpdateRequest,
};
use treedb_query::error::ErrorCode;
use treedb_query::query::interrupt::Interrupt;
use treedb_storage::Durability;

const NAME: &str = "shop.stock";

/// A database with three documents and a unique index.
fn stocked() -> (Database, Collection) {
    let db = open(&SimDisk::new()).unwrap();
    let stock = db.collection(NAME).unwrap();
    stock.create_index(IndexSpec::new(rawdoc! { "u": 1 }).unique()).unwrap();
    let docs = [1, 2, 3].map(|id| rawdoc! { "_id": id, "u": 10 * id, "n": 0 });
    stock.insert_many(&docs, true).unwrap();
    (db, stock)
}

fn one_more(id: i32) -> UpdateRequest {
    UpdateRequest::one(rawdoc! { "_id": id }, rawdoc! { "$inc": { "n": 1 } })
}

fn number(stock: &Collection, id: i32) -> i32 {
    stock.find_one(rawdoc! { "_id": id }).unwrap().map_or(-1, |found| found.get_i32("n").unwrap())
}

/// Runs `work` in another thread while `txn` is open, sees that it waits, ends the transaction by `end`, and returns what came of it.
fn beside<T: Send>(
    txn: Transaction,
    end: impl FnOnce(Transaction),
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    thread::scope(|scope| {
        let (sender, done) = mpsc::channel();
        scope.spawn(move || sender.send(work()).unwrap());
        assert!(done.recv_timeout(Duration::from_millis(60)).is_err(), "it did not wait");
        end(txn);
        done.recv_timeout(Duration::from_secs(20)).expect("it waits for ever")
    })
}

fn commits(txn: Transaction) {
    txn.commit().unwrap();
}

#[test]
fn a_plain_write_waits_for_the_transaction_and_then_sees_what_it_has_committed() {
    type Work = fn(&Database, &Collection) -> Result<()>;
    let writes: [Work; 8] = [
        |_, stock| stock.update(one_more(1)).map(drop),
        |_, stock| stock.update(UpdateRequest::many(rawdoc! {}, rawdoc! { "$inc": { "n": 1 } })).map(drop),
        |_, stock| {
            let request = FindAndModifyRequest {
                find: FindRequest::filter(rawdoc! { "u": { "$lte": 10 } }),
                update: Some(rawdoc! { "$inc": { "n": 1 } }.into()),
                ..FindAndModifyRequest::default()
            };
            stock.find_and_modify(request).map(drop)
        },
        |db, _| {
            let mut batch = db.write_batch()?;
            batch.update(NAME, one_more(1))?;
            batch.commit_with(Durability::Durable)
        },
        |_, stock| {
            let merge = AggregateRequest::new([
                rawdoc! { "$match": { "_id": 2 } },
                rawdoc! { "$project": { "_id": { "$literal": 1 }, "merged": "$u" } },
                rawdoc! { "$merge": "stock" },
            ]);
            stock.aggregate(&merge)?.try_for_each(|document| document.map(drop))?;
            stock.update(one_more(1)).map(drop)
        },
        |db, _| db.transact(50, |txn| txn.collection(NAME)?.update(one_more(1)).map(drop)),
        |_, stock| {
            let replaced = UpdateRequest::one(rawdoc! { "_id": 1, "n": 5 }, rawdoc! { "u": 10, "n": 6 });
            assert_eq!(stock.update(replaced)?.matched, 1);
            Ok(())
        },
        |_, stock| {
            assert_eq!(stock.delete(DeleteRequest::one(rawdoc! { "_id": 1, "n": 5 }))?, 1);
            stock.insert_one(rawdoc! { "_id": 1, "n": 6 }).map(drop)
        },
    ];
    for (case, write) in writes.into_iter().enumerate() {
        let (db, stock) = stocked();
        let mut txn = db.begin().unwrap();
        let five = UpdateRequest::one(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "n": 5 } });
        txn.collection(NAME).unwrap().update(five).unwrap();
        // What the transaction has not changed can be written.
        stock.update(one_more(2)).unwrap();
        let early = case >= 6;
        if early {
            // These find nothing before the commit, so that there is nothing to wait for.
            commits(txn);
            write(&db, &stock).unwrap();
        } else {
            beside(txn, commits, || write(&db, &stock)).unwrap();
        }
        assert_eq!(number(&stock, 1), 6, "case {case}");
        assert!(db.inner.intents.is_empty());
        db.check().unwrap();
    }
}

#[test]
fn a_plain_insert_of_a_key_that_a_transaction_has_added_or_removed_waits_for_what_becomes_of_it() {
    type Inserts = fn(&Collection) -> Result<()>;
    let inserts: [Inserts; 3] = [
        |stock| stock.insert_one(rawdoc! { "_id": 9, "u": 90 }).map(drop),
        |stock| {
            let many: Vec<_> = (9..30).map(|id| rawdoc! { "_id": id, "u": 10 * id }).collect();
            let done = stock.insert_many(&many, false)?;
            done.errors.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
        },
        |stock| {
            let upsert = UpdateRequest::one(rawdoc! { "_id": 10 }, rawdoc! { "$set": { "u": 90 } });
            stock.update(upsert.upsert()).map(drop)
        },
    ];
    for insert in inserts {
        for committed in [true, false] {
            let (db, stock) = stocked();
            let mut txn = db.begin().unwrap();
            txn.collection(NAME).unwrap().insert_one(rawdoc! { "_id": 8, "u": 90 }).unwrap();
            let end = |txn: Transaction| if committed { txn.commit().unwrap() } else { txn.abort() };
            let done = beside(txn, end, || insert(&stock));
            let code = done.err().map(|error| error.code);
            assert_eq!(code, committed.then_some(ErrorCode::DuplicateKey));
            // The other way round: the transaction removes the key.
            let (db, stock) = stocked();
            stock.insert_one(rawdoc! { "_id": 8, "u": 90 }).unwrap();
            let mut txn = db.begin().unwrap();
            txn.collection(NAME).unwrap().delete(DeleteRequest::one(rawdoc! { "_id": 8 })).unwrap();
            let done = beside(txn, end, || insert(&stock));
            let code = done.err().map(|error| error.code);
            assert_eq!(code, (!committed).then_some(ErrorCode::DuplicateKey));
            db.check().unwrap();
        }
    }
}

#[test]
fn out_that_meets_a_key_of_a_transaction_while_it_writes_writes_everything_again_after_it() {
    // A simulated disk has no temporary files: what exceeds the memory can be written once.
    for (memory, again) in [(1 << 20, true), (2_000, false)] {
        let (db, stock) = stocked();
        let source = db.collection("shop.source").unwrap();
        let docs: Vec<_> = (0..500).map(|n| rawdoc! { "_id": n, "u": 1_000 + n }).collect();
        source.insert_many(&docs, true).unwrap();
        let mut txn = db.begin().unwrap();
        txn.collection(NAME).unwrap().insert_one(rawdoc! { "_id": 400, "u": 9_999 }).unwrap();
        let out = AggregateRequest { memory, ..AggregateRequest::new([rawdoc! { "$out": "stock" }]) };
        let written = beside(txn, Transaction::abort, || source.aggregate(&out)?.next().transpose());
        if !again {
            assert_eq!(written.unwrap_err().code, ErrorCode::WriteConflict);
            assert_eq!(stock.len().unwrap(), 3);
            continue;
        }
        assert!(written.unwrap().is_none());
        let found: Vec<_> = stock.find(FindRequest::default()).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, docs);
        db.check().unwrap();
    }
}

#[test]
fn waiting_ends_when_the_operation_is_killed_or_out_of_time_and_nothing_was_changed() {
    let (db, stock) = stocked();
    let mut txn = db.begin().unwrap();
    txn.collection(NAME).unwrap().update(one_more(2)).unwrap();
    let all = || UpdateRequest::many(rawdoc! {}, rawdoc! { "$inc": { "n": 10 } });
    {
        let soon = Instant::now() + Duration::from_millis(50);
        let _operation = Arc::new(Interrupt::new(Some(soon))).enter();
        assert_eq!(stock.update(all()).unwrap_err().code, ErrorCode::MaxTimeMSExpired);
    }
    let order = Arc::new(Interrupt::new(None));
    let waits = thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let _operation = Arc::clone(&order).enter();
            stock.update(all())
        });
        thread::sleep(Duration::from_millis(30));
        order.kill();
        waits.join().unwrap()
    });
    assert_eq!(waits.unwrap_err().code, ErrorCode::Interrupted);
    db.set_write_wait(Duration::from_millis(20), usize::MAX);
    assert_eq!(stock.update(all()).unwrap_err().code, ErrorCode::WriteConflict);
    // The second statement of a batch cannot wait: the transaction could not commit.
    let mut batch = db.write_batch().unwrap();
    batch.update(NAME, one_more(1)).unwrap();
    assert_eq!(batch.update(NAME, one_more(2)).unwrap_err().code, ErrorCode::WriteConflict);
    drop(batch);
    assert_eq!([1, 2, 3].map(|id| number(&stock, id)), [0, 0, 0]);
    txn.commit().unwrap();
    assert_eq!(stock.update(all()).unwrap().modified, 3);
    assert_eq!([1, 2, 3].map(|id| number(&stock, id)), [10, 11, 10]);
}

#[test]
fn a_transaction_whose_statement_has_failed_holds_nobody_up() {
    let (db, stock) = stocked();
    let mut txn = db.begin().unwrap();
    txn.collection(NAME).unwrap().update(one_more(1)).unwrap();
    let twice = txn.collection(NAME).unwrap().insert_one(rawdoc! { "_id": 2 });
    assert_eq!(twice.unwrap_err().code, ErrorCode::DuplicateKey);
    assert!(db.inner.intents.is_empty());
    stock.update(one_more(1)).unwrap();
    drop(txn);
    assert_eq!(number(&stock, 1), 1);
}

#[test]
fn a_transaction_that_begins_after_a_commit_is_visible_does_not_conflict_with_it() {
    let (db, stock) = stocked();
    for round in 1..=20 {
        for _ in 0..2 {
            let mut txn = db.begin().unwrap();
            txn.collection(NAME).unwrap().update(one_more(1)).unwrap();
            txn.commit().unwrap();
        }
        assert_eq!(number(&stock, 1), 2 * round);
    }
}

#[test]
fn expired_documents_that_a_transaction_has_changed_are_left_to_the_next_pass() {
    let (db, stock) = stocked();
    let long_ago = DateTime::from_millis(0);
    stock.create_index(IndexSpec::new(rawdoc! { "at": 1 }).expire_after(1)).unwrap();
    let old: Vec<_> =
        (4..=20).map(|id| rawdoc! { "_id": id, "u": 100 + id, "at": long_ago, "n": 0 }).collect();
    stock.insert_many(&old, true).unwrap();
    let mut txn = db.begin().unwrap();
    // More than a pass deletes in one transaction.
    for id in 4..=10 {
        txn.collection(NAME).unwrap().update(one_more(id)).unwrap();
    }
    assert_eq!(db.expire_now(DateTime::now()).unwrap(), 10);
    txn.commit().unwrap();
    assert_eq!(number(&stock, 4), 1);
    assert_eq!(db.expire_now(DateTime::now()).unwrap(), 7);
    assert_eq!(stock.len().unwrap(), 3);
}

#[test]
fn a_write_of_all_documents_ends_beside_a_stream_of_short_transactions() {
    const DOCUMENTS: i32 = 500;
    let db = open(&SimDisk::new()).unwrap();
    let stock = db.collection(NAME).unwrap();
    let docs: Vec<_> = (0..DOCUMENTS).map(|id| rawdoc! { "_id": id, "n": 0 }).collect();
    stock.insert_many(&docs, true).unwrap();
    let (ended, committed) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for seed in 0..4 {
            let (db, ended, committed) = (&db, &ended, &committed);
            scope.spawn(move || {
                let mut dice = Rng::new(seed);
                while ended.load(Ordering::SeqCst) == 0 {
                    let mut txn = db.begin().unwrap();
                    let ids = [dice.below(DOCUMENTS as usize), dice.below(DOCUMENTS as usize)];
                    let changed = ids.iter().try_for_each(|id| {
                        let done = txn.collection(NAME)?.update(one_more(*id as i32)).map(drop);
                        // There is never a moment at which no transaction is open that has changed something.
                        thread::sleep(Duration::from_millis(2));
                        done
                    });
                    if changed.and_then(|()| txn.commit()).is_ok() {
                        committed.fetch_add(2, Ordering::SeqCst);
                    }
                }
            });
        }
        let all = || UpdateRequest::many(rawdoc! {}, rawdoc! { "$inc": { "n": 1 } });
        for _ in 0..5 {
            let began = Instant::now();
            let done = stock.update(all());
            let took = began.elapsed();
            if done.is_err() || took > Duration::from_secs(5) {
                ended.store(1, Ordering::SeqCst);
                panic!("{done:?} after {took:?}");
            }
        }
        ended.store(1, Ordering::SeqCst);
    });
    let sum: i32 = (0..DOCUMENTS).map(|id| number(&stock, id)).sum();
    assert_eq!(sum as u32, 5 * DOCUMENTS as u32 + committed.load(Ordering::SeqCst));
}

#[test]
fn no_increment_of_transactions_and_plain_writes_beside_each_other_is_lost_and_nobody_waits_for_ever() {
    const DOCUMENTS: usize = 4;
    for seed in seeds(0..2) {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.durability = Durability::Relaxed;
        let db = Database::open_with(dir.path(), options).unwrap();
        let stock = db.collection(NAME).unwrap();
        stock.create_index(IndexSpec::new(rawdoc! { "u": 1 }).unique()).unwrap();
        let docs: Vec<_> =
            (0..DOCUMENTS as i32).map(|id| rawdoc! { "_id": id, "u": -1 - id, "n": 0 }).collect();
        stock.insert_many(&docs, true).unwrap();
        let expected: [AtomicI64; DOCUMENTS] = std::array::from_fn(|_| AtomicI64::new(0));
        let (committed, aborted, lost) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let late = AtomicU32::new(0);
        let began = Instant::now();
        thread::scope(|scope| {
            for thread in 0..8 {
                let (db, stock, expected) = (&db, &stock, &expected);
                let (committed, aborted, lost, late) = (&committed, &aborted, &lost, &late);
                scope.spawn(move || {
                    let mut dice = Rng::new(seed * 100 + thread);
                    for _ in 0..rounds(80) {
                        let ids: Vec<usize> = (0..1 + dice.below(3)).map(|_| dice.below(DOCUMENTS)).collect();
                        let pause = Duration::from_micros(dice.below(400) as u64);
                        let key = dice.below(6) as i32;
                        if dice.chance(40) {
                            // A plain write of one document, of several, or of a unique key that comes and goes.
                            match dice.below(3) {
                                0 => {
                                    stock.update(one_more(ids[0] as i32)).unwrap();
                                    expected[ids[0]].fetch_add(1, Ordering::SeqCst);
                                }
                                1 => {
                                    let first = rawdoc! { "_id": { "$lt": ids[0] as i32 } };
                                    let many = UpdateRequest::many(first, rawdoc! { "$inc": { "n": 1 } });
                                    stock.update(many).unwrap();
                                    for n in &expected[..ids[0]] {
                                        n.fetch_add(1, Ordering::SeqCst);
                                    }
                                }
                                _ => {
                                    let id = 100 + thread as i32;
                                    match stock.insert_one(rawdoc! { "_id": id, "u": key, "n": 0 }) {
                                        Ok(_) => assert_eq!(
                                            stock.delete(DeleteRequest::one(rawdoc! { "_id": id })).unwrap(),
                                            1
                                        ),
                                        Err(error) => assert_eq!(error.code, ErrorCode::DuplicateKey),
                                    }
                                }
                            }
                            continue;
                        }
                        let abort = dice.chance(20);
                        let mut attempts = 0;
                        loop {
                            attempts += 1;
                            assert!(began.elapsed() < Duration::from_secs(240), "they wait for each other");
                            let mut txn = db.begin().unwrap();
                            let work = |txn: &mut Transaction| {
                                let mut stock = txn.collection(NAME)?;
                                for &id in &ids {
                                    // Reads, computes, and writes the number: a lost update would show.
                                    let found = stock.find_one(rawdoc! { "_id": id as i32 })?.unwrap();
                                    let n = found.get_i32("n").unwrap();
                                    thread::sleep(pause);
                                    let set = rawdoc! { "$set": { "n": n + 1 } };
                                    stock.update(UpdateRequest::one(rawdoc! { "_id": id as i32 }, set))?;
                                }
                                stock.insert_one(rawdoc! { "_id": 200 + thread as i32, "u": key, "n": 0 })?;
                                stock
                                    .delete(DeleteRequest::one(rawdoc! { "_id": 200 + thread as i32 }))
                                    .map(drop)
                            };
                            match work(&mut txn) {
                                Ok(()) if abort => {
                                    txn.abort();
                                    aborted.fetch_add(1, Ordering::Relaxed);
                                    break;
                                }
                                Ok(()) => match txn.commit() {
                                    Ok(()) => {
                                        ids.iter().for_each(|&id| {
                                            expected[id].fetch_add(1, Ordering::SeqCst);
                                        });
                                        committed.fetch_add(1, Ordering::Relaxed);
                                        break;
                                    }
                                    Err(error) => {
                                        assert_eq!(error.code, ErrorCode::WriteConflict);
                                        late.fetch_add(1, Ordering::Relaxed);
                                    }
                                },
                                Err(error) if error.code == ErrorCode::WriteConflict => {
                                    lost.fetch_add(1, Ordering::Relaxed);
                                    txn.wait_for_other();
                                }
                                // A plain insert has the key for a moment.
                                Err(error) => assert_eq!(error.code, ErrorCode::DuplicateKey),
                            }
                            treedb_storage::backoff(attempts);
                        }
                    }
                });
            }
        });
        for (id, expected) in expected.into_iter().enumerate() {
            assert_eq!(
                i64::from(number(&stock, id as i32)),
                expected.into_inner(),
                "document {id}, seed {seed}"
            );
        }
        assert!(db.inner.intents.is_empty());
        assert_eq!(stock.len().unwrap(), DOCUMENTS as u64);
        db.check().unwrap();
        let [committed, aborted, lost, late] = [committed, aborted, lost, late].map(AtomicU32::into_inner);
        assert!(committed > 20 && aborted > 5 && lost > 0, "{committed} {aborted} {lost}");
        // Only a plain write that was in progress is found so late.
        assert!(late <= committed, "{late} of {committed} conflicts at the commit");
    }
}
