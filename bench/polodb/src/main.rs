//! PoloDB as a document store for TreeDB's benchmarks: `polodb_peer DIR sequential|random` serves the requests of
//! `bench_common::remote` on stdin.
//!
//! A process of its own because `polodb_core` compiles and links RocksDB 9, and the benchmarks link the system's
//! RocksDB 7.8: Cargo refuses both in one program, and their symbols would clash.

use std::io::{BufReader, stdin, stdout};
use std::process::ExitCode;

use bench_common::remote::{Operation, Request, write_response};
use bench_common::{Checksum, IdPattern, User, city, padding};
use polodb_core::bson::{Document, doc};
use polodb_core::{Collection, CollectionT, Database, IndexModel, IndexOptions};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

struct Store {
    db: Database,
    users: Collection<User>,
    ids: IdPattern,
}

impl Store {
    fn open(dir: &str, ids: IdPattern) -> Result<Store> {
        let db = Database::open_path(dir)?;
        let users = db.collection::<User>("users");
        let unique = IndexOptions { name: None, unique: Some(true) };
        users.create_index(IndexModel { keys: doc! { "email": 1 }, options: Some(unique) })?;
        users.create_index(IndexModel { keys: doc! { "city": 1 }, options: None })?;
        Ok(Store { db, users, ids })
    }

    /// Inserts each batch in a transaction.
    fn insert(&self, numbers: &[u64], batch: u64) -> Result<()> {
        for numbers in numbers.chunks(batch as usize) {
            let txn = self.db.start_transaction()?;
            let users: Vec<User> = numbers.iter().map(|&n| self.ids.user(n)).collect();
            txn.collection::<User>("users").insert_many(&users)?;
            txn.commit()?;
        }
        Ok(())
    }

    fn find_each(&self, numbers: &[u64], filter: impl Fn(u64) -> Document) -> Result<u64> {
        let mut checksum = Checksum::default();
        for &n in numbers {
            self.users.find_one(filter(n))?.ok_or("a document is missing")?.add_to(&mut checksum);
        }
        Ok(checksum.finish())
    }

    fn find_by_city(&self, number: u64) -> Result<u64> {
        let mut sum = 0u64;
        for user in self.users.find(doc! { "city": city(number) }).run()? {
            let mut checksum = Checksum::default();
            user?.add_to(&mut checksum);
            sum = sum.wrapping_add(checksum.finish());
        }
        Ok(sum)
    }

    fn update(&self, numbers: &[u64]) -> Result<()> {
        for &n in numbers {
            let change = doc! { "$set": { "pad": padding(n) } };
            if self.users.update_one(doc! { "_id": self.ids.id(n) }, change)?.matched_count != 1 {
                return Err("a document is missing".into());
            }
        }
        Ok(())
    }

    fn delete(&self, numbers: &[u64]) -> Result<()> {
        for &n in numbers {
            if self.users.delete_one(doc! { "_id": self.ids.id(n) })?.deleted_count != 1 {
                return Err("a document is missing".into());
            }
        }
        Ok(())
    }

    fn counts(&self) -> Result<(u64, u64)> {
        let mut in_city = 0;
        for user in self.users.find(doc! { "city": "city-07" }).run()? {
            user?;
            in_city += 1;
        }
        Ok((self.users.count_documents()?, in_city))
    }

    fn respond(&self, request: &Request) -> Result<(u64, u64)> {
        let users = &request.users;
        match request.operation {
            Operation::Insert => self.insert(users, request.argument).map(|()| (0, 0)),
            Operation::FindById => {
                self.find_each(users, |n| doc! { "_id": self.ids.id(n) }).map(|sum| (sum, 0))
            }
            Operation::FindByEmail => {
                self.find_each(users, |n| doc! { "email": self.ids.email(n) }).map(|sum| (sum, 0))
            }
            Operation::FindByCity => self.find_by_city(request.argument).map(|sum| (sum, 0)),
            Operation::Update => self.update(users).map(|()| (0, 0)),
            Operation::Delete => self.delete(users).map(|()| (0, 0)),
            Operation::Count => self.counts(),
        }
    }
}

fn serve() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, pattern] = args.as_slice() else {
        return Err("usage: polodb_peer DIR sequential|random".into());
    };
    let ids = match pattern.as_str() {
        "sequential" => IdPattern::Sequential,
        "random" => IdPattern::Random,
        other => return Err(format!("unknown id pattern {other:?}").into()),
    };
    let store = Store::open(dir, ids)?;
    let mut requests = BufReader::new(stdin().lock());
    let mut responses = stdout().lock();
    while let Some(request) = Request::read(&mut requests)? {
        write_response(&mut responses, &store.respond(&request).map_err(|e| e.to_string()))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("polodb_peer: {e}");
            ExitCode::FAILURE
        }
    }
}
