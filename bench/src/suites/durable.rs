//! Durable commits per second, compared with peers and with the disk's own rate.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::Scale;
use crate::Result;
use crate::comparison::{Candidate, Measurement, Samples, Unit, compare};
use crate::engines::{
    DataDir, DurabilityClass, Engine, EntryFormat, KeyFormat, KeyValueStore, OpenStore, Scan,
};
use crate::report::{Goals, Row, progress, rows};

pub(super) const ABOUT: &str = "Every commit is flushed to disk before it returns. Each producer thread commits one entry \
    of 100 bytes at a time, with 8-byte keys in random order. TreeDB and RocksDB share flushes between concurrent \
    commits; the other peers allow one writer at a time. The peer called `the disk` is a loop that writes 4 KiB into a \
    preallocated file and calls `fdatasync`. Transactions of several entries come from one producer, with keys spread \
    over the table. After each round a checksum over the whole table has to agree. Rows that compare TreeDB with \
    itself use a store of its own, in the same rounds.";

const PEERS: &[Engine] = &[
    Engine::TreeDb,
    Engine::Lmdb,
    Engine::Mdbx,
    Engine::Redb,
    Engine::Fjall,
    Engine::RocksDb,
    Engine::Sqlite,
];
const FORMAT: EntryFormat = EntryFormat { keys: KeyFormat::Spread, value: 100 };
const CLASS: DurabilityClass = DurabilityClass::Durable;
const UNIT: Unit = Unit::OpsPerSecond;
const ONE_PRODUCER: Goals<'_> = &[("the disk", 0.9), ("SQLite", 5.0), ("redb", 3.0)];
const MANY_PRODUCERS: Goals<'_> = &[("SQLite", 5.0), ("redb", 3.0)];
/// For transactions of every size: faster than SQLite.
const TRANSACTIONS: Goals<'_> = &[("SQLite", 1.0)];

/// Each of `threads` threads commits `each` entries of its own, one at a time.
fn produce(store: &dyn KeyValueStore, threads: usize, each: usize, version: u64) -> Result<()> {
    let numbers: Vec<u64> = (0..(threads * each) as u64).collect();
    std::thread::scope(|scope| {
        let run = |numbers| store.put(numbers, 1, version);
        let all: Vec<_> = numbers.chunks(each).map(|numbers| scope.spawn(move || run(numbers))).collect();
        all.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a producer panicked")?)
    })
}

/// A preallocated file to write to.
struct Disk {
    file: File,
    _data_dir: DataDir,
}

impl Disk {
    const BYTES: u64 = 16 << 20;

    fn new() -> Result<Disk> {
        let data_dir = DataDir::new("disk")?;
        let file = File::options().create_new(true).write(true).open(data_dir.path().join("file"))?;
        file.write_all_at(&vec![0; Disk::BYTES as usize], 0)?;
        file.sync_all()?;
        Ok(Disk { file, _data_dir: data_dir })
    }

    fn run(&self, count: u64) -> Result<Measurement> {
        Measurement::wall_clock(count, || {
            for i in 0..count {
                self.file.write_all_at(&[i as u8; 4096], i * 4096 % Disk::BYTES)?;
                self.file.sync_data()?;
            }
            Ok(0)
        })
        .map(|measured| Measurement { checksum: None, ..measured })
    }
}

fn with_checksum(store: &dyn KeyValueStore, measured: Measurement) -> Result<Measurement> {
    Ok(Measurement { checksum: Some(store.scan(Scan::Verify)?), ..measured })
}

/// Commits by a number of concurrent producers.
fn producers(scale: Scale, threads: usize, commits: u64) -> Result<Vec<Samples>> {
    let each = (scale.of(commits) as usize / threads).max(1);
    let ops = (each * threads) as u64;
    let stores = Engine::create_all(PEERS, CLASS, FORMAT)?;
    let run = |store: &dyn KeyValueStore, round| {
        with_checksum(
            store,
            Measurement::wall_clock(ops, || produce(store, threads, each, round).map(|()| 0))?,
        )
    };
    let mut candidates: Vec<Candidate<'_>> = stores
        .iter()
        .map(|o: &OpenStore| Candidate {
            name: o.name,
            run: Box::new(move |round| run(o.store.as_ref(), round)),
        })
        .collect();
    let few = scale.of(500);
    if threads == 1 {
        let disk = Disk::new()?;
        candidates.push(Candidate { name: "the disk", run: Box::new(move |_| disk.run(few)) });
    } else {
        let alone = Engine::TreeDb.create(CLASS, FORMAT)?;
        let run = move |round| -> Result<Measurement> {
            let measured = Measurement::wall_clock(few, || {
                produce(alone.store.as_ref(), 1, few as usize, round).map(|()| 0)
            })?;
            Ok(Measurement { checksum: None, ..measured })
        };
        candidates.push(Candidate { name: "TreeDB, 1 producer", run: Box::new(run) });
    }
    compare(UNIT, scale.rounds, &mut candidates)
}

/// Transactions of `size` entries, `count` of them, by one producer.
fn transactions(scale: Scale, count: u64, size: u64) -> Result<Vec<Samples>> {
    let stores = Engine::create_all(PEERS, CLASS, FORMAT)?;
    let (count, size) = (scale.of(count), size as usize);
    let numbers: Vec<u64> = (0..count * size as u64).collect();
    let run = |store: &dyn KeyValueStore, round| {
        with_checksum(store, Measurement::wall_clock(count, || store.put(&numbers, size, round).map(|()| 0))?)
    };
    let mut candidates: Vec<Candidate<'_>> = stores
        .iter()
        .map(|o: &OpenStore| Candidate {
            name: o.name,
            run: Box::new(move |round| run(o.store.as_ref(), round)),
        })
        .collect();
    compare(UNIT, scale.rounds, &mut candidates)
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut out = Vec::new();
    let mut add = |name: &str, goals, samples: &dyn Fn() -> Result<Vec<Samples>>| -> Result<()> {
        if scale.wants(name) {
            eprintln!("durable: {name}");
            let rows = rows(name, CLASS.label(), UNIT, samples()?, goals);
            rows.iter().for_each(progress);
            out.extend(rows);
        }
        Ok(())
    };
    let many_16: Goals<'_> = &[("TreeDB, 1 producer", 4.5), MANY_PRODUCERS[0], MANY_PRODUCERS[1]];
    let many_64: Goals<'_> = &[("TreeDB, 1 producer", 8.0), MANY_PRODUCERS[0], MANY_PRODUCERS[1]];
    add("durable commits, 1 producer", ONE_PRODUCER, &|| producers(scale, 1, 500))?;
    add("durable commits, 16 producers", many_16, &|| producers(scale, 16, 2000))?;
    add("durable commits, 64 producers", many_64, &|| producers(scale, 64, 4000))?;
    // Few transactions, so that the suite takes minutes on slow disks.
    for (count, size) in [(1000, 1), (500, 100), (100, 1000), (10, 10_000)] {
        let name = format!("{count} durable transactions of {size} entries each");
        add(&name, TRANSACTIONS, &|| transactions(scale, count, size))?;
    }
    Ok(out)
}
