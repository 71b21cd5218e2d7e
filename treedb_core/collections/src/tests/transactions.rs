//! Transactions compared with the same statements outside a transaction, conflicts between two transactions,
//! and concurrent transactions.

use bson::{doc, rawdoc};
use treedb_testing::{Rng, rounds, seeds};

use super::*;
use crate::{
    AggregateRequest, DeleteRequest, FindAndModifyRequest, IndexSpec, Transaction, TransactionCollection,
    UpdateRequest,
};
use treedb_query::error::ErrorCode;
use treedb_storage::Durability;

const NAMES: [&str; 2] = ["shop.orders", "shop.users"];

fn fresh() -> Database {
    open(&SimDisk::new()).unwrap()
}

/// Compares a database, on which single statements are run, with a transaction that must see the same.
struct Twins {
    dice: Rng,
    next_id: i32,
}

impl Twins {
    fn document(&mut self) -> Document {
        self.next_id += 1;
        let tags: Vec<i32> = (0..self.dice.below(3)).map(|_| self.dice.below(5) as i32).collect();
        doc! { "_id": self.next_id, "a": self.dice.below(8) as i32, "tags": tags, "u": self.dice.below(400) as i32 }
    }

    /// Runs the same statement on both; it must fail on both or on neither. False if it failed.
    fn statement(&mut self, mut txn: TransactionCollection<'_>, plain: &crate::Collection) -> bool {
        let filter = match self.dice.below(5) {
            0 => doc! { "a": self.dice.below(8) as i32 },
            1 => doc! { "tags": self.dice.below(5) as i32 },
            2 => doc! { "u": { "$lt": self.dice.below(400) as i32 } },
            3 => doc! { "_id": self.dice.below(1 + self.next_id as usize) as i32 },
            _ => doc! { "a": { "$gte": self.dice.below(8) as i32 }, "tags": { "$ne": 2 } },
        };
        let filter = raw(&filter);
        let one = |both: (Result<String>, Result<String>)| match both {
            (Ok(mine), Ok(theirs)) => {
                assert_eq!(mine, theirs);
                true
            }
            (Err(mine), Err(theirs)) => {
                assert_eq!((mine.code, mine.message), (theirs.code, theirs.message));
                false
            }
            (mine, theirs) => panic!("{mine:?} in the transaction, {theirs:?} outside"),
        };
        let said = |what: &dyn std::fmt::Debug| format!("{what:?}");
        match self.dice.below(10) {
            0..4 => {
                let document = raw(&self.document());
                one((
                    txn.insert_one(&document).map(|id| said(&id)),
                    plain.insert_one(&document).map(|id| said(&id)),
                ))
            }
            4..6 => {
                let changes = [
                    rawdoc! { "$inc": { "a": 1 } },
                    rawdoc! { "$set": { "tags": [self.dice.below(5) as i32, 1] } },
                    rawdoc! { "$set": { "u": self.dice.below(400) as i32 } },
                    rawdoc! { "$push": { "tags": 4 } },
                ];
                let change = changes[self.dice.below(4)].clone();
                // Only when sorted by `_id`, the first document is the same.
                let request = UpdateRequest::many(filter, change);
                let request = if self.dice.chance(20) { request.upsert() } else { request };
                // An upsert generates an `_id`.
                let request = UpdateRequest {
                    upsert: request.upsert && request.filter.get("_id").unwrap().is_some(),
                    ..request
                };
                one((
                    txn.update(request.clone()).map(|done| said(&done)),
                    plain.update(request).map(|done| said(&done)),
                ))
            }
            6 => {
                let request = DeleteRequest::many(filter);
                one((
                    txn.delete(request.clone()).map(|done| said(&done)),
                    plain.delete(request).map(|done| said(&done)),
                ))
            }
            7 => {
                let find = FindRequest::filter(filter).sort(rawdoc! { "a": 1, "_id": -1 });
                let request = FindAndModifyRequest {
                    find,
                    update: self.dice.chance(60).then(|| rawdoc! { "$inc": { "a": -3 } }.into()),
                    array_filters: Vec::new(),
                    upsert: false,
                    after: false,
                };
                one((
                    txn.find_and_modify(request.clone()).map(|done| said(&done)),
                    plain.find_and_modify(request).map(|done| said(&done)),
                ))
            }
            _ => true,
        }
    }

    /// Compares what is found by each index, in both directions.
    fn same(&mut self, txn: &mut Transaction, db: &Database) {
        for name in NAMES {
            let plain = db.collection(name).unwrap();
            let hints = plain.indexes().unwrap().unwrap_or_default();
            let hints = hints.iter().map(|index| index.get_str("name").unwrap().to_owned());
            let mine = txn.collection(name).unwrap();
            for (hint, sort) in hints.chain(["$natural".to_owned()]).flat_map(|hint| {
                [rawdoc! { "_id": 1 }, rawdoc! { "a": -1, "_id": 1 }, rawdoc! { "u": 1, "_id": 1 }]
                    .map(|sort| (hint.clone(), sort))
            }) {
                let filter = match self.dice.below(3) {
                    0 => rawdoc! {},
                    1 => rawdoc! { "a": { "$lt": 6 } },
                    _ => rawdoc! { "tags": { "$gte": 1 } },
                };
                let request = FindRequest::filter(filter).sort(sort).hint(hint);
                let counted = mine.count(request.clone()).unwrap();
                let found = mine.find(&request).unwrap();
                let found = found.collect(mine.transaction()).unwrap();
                let expected: Vec<_> = plain.find(request.clone()).unwrap().collect::<Result<_>>().unwrap();
                assert_eq!(found, expected);
                assert_eq!(counted, expected.len() as u64);
                // A query that an index may cover.
                let covered = request.projection(rawdoc! { "_id": 1, "a": 1 });
                let found = mine.find(&covered).unwrap().collect(mine.transaction()).unwrap();
                let expected: Vec<_> = plain.find(covered).unwrap().collect::<Result<_>>().unwrap();
                assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn a_transaction_sees_its_own_changes_and_commits_all_or_none() {
    for seed in seeds(0..3) {
        let (db, twin) = (fresh(), fresh());
        for (db, name) in [&db, &twin].into_iter().flat_map(|db| NAMES.map(|name| (db, name))) {
            let collection = db.collection(name).unwrap();
            collection.create_index(rawdoc! { "a": 1, "_id": -1 }).unwrap();
            collection.create_index(rawdoc! { "tags": -1 }).unwrap();
            collection.create_index(IndexSpec::new(rawdoc! { "u": 1 }).unique()).unwrap();
        }
        let mut twins = Twins { dice: Rng::new(seed), next_id: 0 };
        let (mut committed, mut given_up, mut failed) = (0, 0, 0);
        for _ in 0..rounds(60) {
            let before = dump(&twin).unwrap();
            let mut txn = db.begin().unwrap();
            let mut whole = true;
            for _ in 0..1 + twins.dice.below(10) {
                let name = NAMES[twins.dice.below(2)];
                whole = twins.statement(txn.collection(name).unwrap(), &twin.collection(name).unwrap());
                if !whole {
                    break;
                }
            }
            if whole {
                twins.same(&mut txn, &twin);
            }
            let refused = txn.collection(NAMES[0]).map(drop);
            assert_eq!(
                refused.err().map(|error| error.code),
                (!whole).then_some(ErrorCode::NoSuchTransaction)
            );
            assert_eq!(dump(&db).unwrap(), before, "others see uncommitted changes");
            if whole && twins.dice.chance(70) {
                txn.commit().unwrap();
                committed += 1;
            } else {
                if whole {
                    txn.abort();
                    given_up += 1;
                } else {
                    assert_eq!(txn.commit().unwrap_err().code, ErrorCode::NoSuchTransaction);
                    failed += 1;
                }
                for (name, contents) in before {
                    let plain = twin.collection(&name).unwrap();
                    plain.delete(DeleteRequest::many(rawdoc! {})).unwrap();
                    let docs: Vec<_> = contents.docs.values().map(raw).collect();
                    plain.insert_many(&docs, true).unwrap();
                }
            }
            assert_eq!(dump(&db).unwrap(), dump(&twin).unwrap());
        }
        db.check().unwrap();
        assert!(committed > 5 && given_up > 2 && failed > 0, "{committed} {given_up} {failed}");
    }
}

/// One of the changes that two transactions make.
type Step = fn(&mut Transaction) -> Result<()>;

fn bump(txn: &mut Transaction) -> Result<()> {
    let request = UpdateRequest::one(rawdoc! { "_id": 1 }, rawdoc! { "$inc": { "n": 1 } });
    txn.collection("shop.orders")?.update(request).map(drop)
}

fn remove(txn: &mut Transaction) -> Result<()> {
    txn.collection("shop.orders")?.delete(DeleteRequest::one(rawdoc! { "_id": 1 })).map(drop)
}

fn add(txn: &mut Transaction) -> Result<()> {
    txn.collection("shop.orders")?.insert_one(rawdoc! { "_id": 7, "n": 0 }).map(drop)
}

fn other(txn: &mut Transaction) -> Result<()> {
    let request = UpdateRequest::one(rawdoc! { "_id": 2 }, rawdoc! { "$inc": { "n": 1 } });
    txn.collection("shop.orders")?.update(request).map(drop)
}

fn look(txn: &mut Transaction) -> Result<()> {
    txn.collection("shop.orders")?.find_one(rawdoc! { "_id": 1 }).map(drop)
}

#[test]
fn of_two_transactions_that_change_the_same_document_or_key_the_first_to_write_wins() {
    let cases: [(Step, Step, bool); 9] = [
        (bump, bump, true),
        (bump, remove, true),
        (remove, bump, true),
        (remove, remove, true),
        (add, add, true),
        (bump, other, false),
        (add, bump, false),
        (look, bump, false),
        (bump, look, false),
    ];
    for (number, (first, second, conflicts)) in cases.into_iter().enumerate() {
        for late in [false, true] {
            let db = fresh();
            let orders = db.collection("shop.orders").unwrap();
            orders.insert_many(&[rawdoc! { "_id": 1, "n": 0 }, rawdoc! { "_id": 2, "n": 0 }], true).unwrap();
            let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
            first(&mut a).unwrap();
            // The statement fails, whether the other transaction is open or has committed.
            let done = if late {
                a.commit().unwrap();
                second(&mut b)
            } else {
                let done = second(&mut b);
                a.commit().unwrap();
                done
            };
            let code = done.err().map(|error| error.code);
            let committed = b.commit().err().map(|error| error.code);
            assert_eq!(committed, conflicts.then_some(ErrorCode::NoSuchTransaction));
            assert_eq!(
                code,
                conflicts.then_some(ErrorCode::WriteConflict),
                "case {number}, {}",
                if late { "one after the other" } else { "concurrently" }
            );
            db.check().unwrap();
        }
    }
}

#[test]
fn other_writes_in_progress_and_drops_conflict_like_transactions() {
    let db = fresh();
    let orders = db.collection("shop.orders").unwrap();
    orders.insert_one(rawdoc! { "_id": 1, "n": 0 }).unwrap();
    let mut txn = db.begin().unwrap();
    // A write that has begun, and of which the transaction knows nothing.
    let mut batch = db.write_batch().unwrap();
    let nine = UpdateRequest::one(rawdoc! { "_id": 1 }, rawdoc! { "$set": { "n": 9 } });
    batch.update("shop.orders", nine).unwrap();
    bump(&mut txn).unwrap();
    batch.commit_with(Durability::Relaxed).unwrap();
    assert_eq!(txn.commit().unwrap_err().code, ErrorCode::WriteConflict);
    let mut txn = db.begin().unwrap();
    add(&mut txn).unwrap();
    db.drop_collection("shop.orders").unwrap();
    assert_eq!(txn.commit().unwrap_err().code, ErrorCode::WriteConflict);
    let mut txn = db.begin().unwrap();
    add(&mut txn).unwrap();
    txn.commit().unwrap();
    assert_eq!(orders.len().unwrap(), 1);
    let mut txn = db.begin().unwrap();
    orders.create_index(IndexSpec::new(rawdoc! { "n": 1 }).unique()).unwrap();
    txn.collection("shop.orders").unwrap().insert_one(rawdoc! { "_id": 8, "n": 0 }).unwrap();
    // The index is not in its snapshot: retrying would not help.
    assert_eq!(txn.commit().unwrap_err().code, ErrorCode::DuplicateKey);
    db.check().unwrap();
}

#[test]
fn a_read_only_transaction_never_conflicts() {
    let db = fresh();
    let mut txn = db.begin().unwrap();
    let none = txn.collection("shop.nothing").unwrap();
    assert_eq!(none.count(FindRequest::default()).unwrap(), 0);
    assert_eq!(none.find_one(rawdoc! { "a": 1 }).unwrap(), None);
    let nothing = AggregateRequest::new([rawdoc! { "$group": { "_id": null } }]);
    assert_eq!(none.aggregate(&nothing).unwrap().count(), 0);
    let past = FindRequest::default().as_of(crate::AsOf::Change(1));
    assert_eq!(none.count(past).unwrap_err().code, ErrorCode::OperationNotSupportedInTransaction);
    assert_eq!(txn.changes(), 0);
    txn.commit().unwrap();
    assert_eq!(db.list_databases().unwrap(), Vec::<String>::new());
}

#[test]
fn a_pipeline_in_a_transaction_sees_its_changes_and_cannot_write() {
    let db = fresh();
    let users = db.collection("shop.users").unwrap();
    users.create_index(rawdoc! { "n": 1 }).unwrap();
    users.insert_many(&[rawdoc! { "_id": 1, "n": 1 }, rawdoc! { "_id": 2, "n": 2 }], true).unwrap();
    let mut txn = db.begin().unwrap();
    let orders = [(1, 5), (1, 6), (2, 7)].map(|(user, much)| rawdoc! { "user": user, "much": much });
    txn.collection("shop.orders").unwrap().insert_many(&orders).unwrap();
    let renumber = UpdateRequest::one(rawdoc! { "_id": 2 }, rawdoc! { "$set": { "n": 20 } });
    txn.collection("shop.users").unwrap().update(renumber).unwrap();
    // Changes of others are not visible.
    users.insert_one(rawdoc! { "_id": 3, "n": 3 }).unwrap();
    let join = AggregateRequest::new([
        rawdoc! { "$match": { "n": { "$gte": 1 } } },
        rawdoc! { "$lookup": { "from": "orders", "localField": "_id", "foreignField": "user", "as": "orders" } },
        rawdoc! { "$unionWith": { "coll": "orders", "pipeline": [{ "$match": { "much": 7 } }] } },
        rawdoc! { "$project": { "_id": 0, "n": 1, "much": { "$sum": "$orders.much" } } },
        rawdoc! { "$sort": { "n": 1 } },
    ]);
    let mut answer = txn.collection("shop.users").unwrap().aggregate(&join).unwrap();
    assert!(matches!(answer.plan().unwrap().path, treedb_query::query::Path::Index { .. }));
    let first = answer.next().unwrap().unwrap();
    // Changes made while it runs are not visible either.
    txn.collection("shop.orders").unwrap().delete(DeleteRequest::many(rawdoc! {})).unwrap();
    txn.collection("shop.users").unwrap().delete(DeleteRequest::many(rawdoc! {})).unwrap();
    let found: Vec<_> = std::iter::once(first).chain(answer.map(Result::unwrap)).collect();
    let expected = [rawdoc! { "much": 0 }, rawdoc! { "n": 1, "much": 11 }, rawdoc! { "n": 20, "much": 7 }];
    assert_eq!(found, expected);
    let counted = AggregateRequest::new([rawdoc! { "$count": "n" }]);
    assert_eq!(txn.collection("shop.users").unwrap().aggregate(&counted).unwrap().count(), 0);
    for stage in [
        rawdoc! { "$out": "copy" },
        rawdoc! { "$merge": "copy" },
        rawdoc! { "$collStats": { "count": {} } },
        rawdoc! { "$indexStats": {} },
    ] {
        let refused = txn.collection("shop.users").unwrap().aggregate(&AggregateRequest::new([stage]));
        assert_eq!(refused.unwrap_err().code, ErrorCode::OperationNotSupportedInTransaction);
    }
    txn.commit().unwrap();
    assert_eq!(users.len().unwrap(), 1);
    assert_eq!(db.list_collections("shop").unwrap().len(), 2);
    db.check().unwrap();
}

#[test]
fn concurrent_transfers_keep_the_total_balance() {
    const ACCOUNTS: i32 = 12;
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.durability = Durability::Relaxed;
    let db = Database::open_with(dir.path(), options).unwrap();
    for name in NAMES {
        let docs: Vec<_> = (0..ACCOUNTS).map(|id| rawdoc! { "_id": id, "left": 100 }).collect();
        db.collection(name).unwrap().insert_many(&docs, true).unwrap();
        db.collection(name).unwrap().create_index(rawdoc! { "left": 1 }).unwrap();
    }
    let sum = |txn: &mut Transaction| -> Result<i32> {
        let mut sum = 0;
        for name in NAMES {
            let collection = txn.collection(name)?;
            let all = collection.find(&FindRequest::default())?.collect(collection.transaction())?;
            sum += all.iter().map(|doc| doc.get_i32("left").unwrap()).sum::<i32>();
        }
        Ok(sum)
    };
    let (moved, met) = (std::sync::atomic::AtomicU32::new(0), std::sync::atomic::AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (db, moved, met) = (&db, &moved, &met);
            scope.spawn(move || {
                let mut dice = Rng::new(thread);
                for _ in 0..rounds(60) {
                    let mut tries = 0;
                    db.transact(1000, |txn| {
                        tries += 1;
                        let mut account = || (NAMES[dice.below(2)], dice.below(ACCOUNTS as usize) as i32);
                        let ((from, a), (to, b)) = (account(), account());
                        for (name, id, change) in [(from, a, -7), (to, b, 7)] {
                            let update = rawdoc! { "$inc": { "left": change } };
                            let request = UpdateRequest::one(rawdoc! { "_id": id }, update);
                            assert_eq!(txn.collection(name)?.update(request)?.matched, 1);
                        }
                        assert_eq!(sum(txn)?, 2 * 100 * ACCOUNTS);
                        // Lets other threads run in between.
                        std::thread::sleep(std::time::Duration::from_micros(300));
                        Ok(())
                    })
                    .unwrap();
                    moved.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    met.fetch_add(tries - 1, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(sum(&mut db.begin().unwrap()).unwrap(), 2 * 100 * ACCOUNTS);
    assert_eq!(moved.into_inner() as usize, 4 * rounds(60));
    assert!(met.into_inner() > 0, "there were no conflicts");
    db.check().unwrap();
}

#[test]
fn a_transaction_beyond_the_memory_limit_is_refused_and_changes_nothing() {
    let db = fresh();
    let mut txn = db.begin().unwrap();
    let big = rawdoc! { "text": "x".repeat(8 << 20) };
    let mut orders = txn.collection("shop.orders").unwrap();
    let refused = (0..64).find_map(|_| orders.insert_one(&big).err()).unwrap();
    assert_eq!(refused.code, ErrorCode::TransactionTooLarge);
    assert_eq!(txn.commit().unwrap_err().code, ErrorCode::NoSuchTransaction);
    assert!(db.collection("shop.orders").unwrap().is_empty().unwrap());
}

#[test]
fn a_transaction_lists_the_collections_that_there_were_when_it_began() {
    let db = open(&SimDisk::new()).unwrap();
    for name in ["shop.a", "shop.b", "other.c"] {
        db.collection(name).unwrap().insert_one(rawdoc! { "_id": 1 }).unwrap();
    }
    let mut txn = db.begin().unwrap();
    db.rename_collection("shop.a", "shop.z", false).unwrap();
    db.drop_collection("shop.b").unwrap();
    txn.collection("shop.new").unwrap().insert_one(rawdoc! { "_id": 1 }).unwrap();
    let names = |listed: Vec<crate::CollectionInfo>| -> Vec<String> {
        listed.into_iter().map(|found| found.namespace.to_string()).collect()
    };
    assert_eq!(names(txn.list_collections("shop").unwrap()), ["shop.a", "shop.b"]);
    assert_eq!(names(db.list_collections("shop").unwrap()), ["shop.z"]);
    assert!(txn.list_collections("a b").is_err());
}
