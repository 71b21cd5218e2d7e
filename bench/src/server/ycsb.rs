//! The core workloads of YCSB: records of ten fields of 100 bytes, read, changed and scanned by some connections at once.
//!
//! | | operations | chooses records |
//! |---|---|---|
//! | A | half reads, half updates of one field | zipfian |
//! | B | 95 % reads, 5 % updates | zipfian |
//! | C | reads | zipfian |
//! | D | 95 % reads, 5 % inserts | the latest |
//! | E | 95 % scans of 1 to 100 records, 5 % inserts | zipfian |
//! | F | half reads, half reads followed by an update | zipfian |
//!
//! Zipfian choices have the exponent .99 and are scattered over the records by a hash, as in YCSB. All of the workloads can also choose all
//! records equally often. Every value begins with the number of its record, which is checked on each read.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench_common::Random;
use bson::{RawDocument, RawDocumentBuf};

use super::client::{Client, Protocol};
use super::done::{Beginning, Done, nanos};
use super::process::Process;
use crate::Result;

/// Records before the first workload.
pub(crate) const RECORDS: u64 = 200_000;

/// Updates so far, and some: no two write the same. What a record has already would not be written at all, and a workload is run again and
/// again, with the same choices.
static UPDATES: AtomicU64 = AtomicU64::new(FIELDS);

const FIELDS: u64 = 10;
const VALUE_BYTES: usize = 100;

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    A,
    B,
    C,
    D,
    E,
    F,
}

impl Workload {
    /// All of them, in the order in which YCSB runs them over one set of records; those that insert come last.
    pub(crate) const ALL: [Workload; 6] =
        [Workload::A, Workload::B, Workload::C, Workload::F, Workload::D, Workload::E];

    /// Its description in a row.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::A => "YCSB A, half updates",
            Workload::B => "YCSB B, 5 % updates",
            Workload::C => "YCSB C, reads",
            Workload::D => "YCSB D, latest, 5 % inserts",
            Workload::E => "YCSB E, scans, 5 % inserts",
            Workload::F => "YCSB F, half read-modify-write",
        }
    }

    /// Operations of 100 that write.
    fn writes(self) -> u64 {
        match self {
            Workload::A | Workload::F => 50,
            Workload::B | Workload::D | Workload::E => 5,
            Workload::C => 0,
        }
    }
}

/// How a workload chooses records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Some far more often than others; which ones, depends on the workload.
    Zipfian,
    /// All equally often.
    Uniform,
}

/// How long a workload runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Length {
    /// For some time.
    Time(Duration),
    /// Until the connections have made so many operations together.
    Operations(u64),
}

/// What is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// The operations.
    pub(crate) workload: Workload,
    /// The records.
    pub(crate) choice: Choice,
    /// How many connections.
    pub(crate) threads: u64,
    /// How long.
    pub(crate) length: Length,
}

fn hash(n: u64) -> u64 {
    // The first number of a sequence: splitmix64's output function.
    Random::new(n, u64::MAX).next().unwrap_or(0)
}

/// The `_id` of record `n`: in an order that has nothing to do with that of the inserts.
fn key(n: u64) -> String {
    format!("user{:020}", hash(n))
}

/// A value of record `n`.
fn value(n: u64, salt: u64) -> String {
    let mut value = format!("{n:010}");
    let mut letters = Random::new(n ^ (salt << 32), 26);
    while value.len() < VALUE_BYTES {
        value.push(char::from(b'a' + letters.next().unwrap_or(0) as u8));
    }
    value
}

fn record(n: u64) -> Result<RawDocumentBuf> {
    let mut document = RawDocumentBuf::new();
    document.append(bson::raw::cstr!("_id"), key(n));
    for field in 0..FIELDS {
        document.append(bson::raw::CString::try_from(format!("field{field}"))?, value(n, field));
    }
    Ok(document)
}

/// Whether a document is a whole record, and record `n` if that is known.
fn check(document: &RawDocument, n: Option<u64>) -> Result<()> {
    let mut fields = 0;
    for field in document.iter().skip(1) {
        let value = field?.1.as_str().ok_or("a field is not a string")?;
        let number = value.get(..10).and_then(|number| number.parse::<u64>().ok());
        if value.len() != VALUE_BYTES || n.is_some_and(|n| number != Some(n)) {
            return Err(format!("{value:?} is no value of record {n:?}").into());
        }
        fields += 1;
    }
    if fields == FIELDS { Ok(()) } else { Err(format!("a record with {fields} fields").into()) }
}

/// Chooses numbers below a bound by a zipfian distribution (Gray et al., "Quickly generating billion-record synthetic
/// databases", 1994).
#[derive(Clone)]
struct Zipfian {
    items: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    theta: f64,
    random: Random,
}

impl Zipfian {
    /// Takes as long as some operations for each thousand of `items`.
    fn new(items: u64) -> Zipfian {
        let theta = 0.99;
        let zeta: f64 = (1..=items).map(|i| 1.0 / (i as f64).powf(theta)).sum();
        let zeta_2 = 1.0 + 0.5_f64.powf(theta);
        let items = items as f64;
        let eta = (1.0 - (2.0 / items).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta);
        Zipfian { items, alpha: 1.0 / (1.0 - theta), zeta, eta, theta, random: Random::new(0, 1 << 53) }
    }

    /// The same distribution with choices of its own.
    fn seeded(&self, seed: u64) -> Zipfian {
        Zipfian { random: Random::new(seed, 1 << 53), ..self.clone() }
    }

    /// 0 most often.
    fn next(&mut self) -> u64 {
        let u = self.random.next().unwrap_or(0) as f64 / (1_u64 << 53) as f64;
        let uz = u * self.zeta;
        if uz < 1.0 {
            0
        } else if uz < 1.0 + 0.5_f64.powf(self.theta) {
            1
        } else {
            ((self.items * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64)
                .min(self.items as u64 - 1)
        }
    }
}

/// Runs `each` on so many connections at once, with their numbers.
fn connections<T: Send>(
    server: &Process,
    protocol: Protocol,
    count: u64,
    each: impl Fn(Client, u64) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let clients = (0..count).map(|_| Client::connect(server, protocol)).collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let each = &each;
        let threads: Vec<_> =
            clients.into_iter().zip(0..).map(|(client, i)| scope.spawn(move || each(client, i))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked")?).collect()
    })
}

/// Inserts `count` records from `first` on by so many connections, `batch` of them with one command.
///
/// # Errors
/// The server's.
pub(crate) fn load(
    server: &Process,
    protocol: Protocol,
    threads: u64,
    first: u64,
    count: u64,
    batch: u64,
) -> Result<Done> {
    let next = AtomicU64::new(first);
    let begun = Beginning::now(Some(server))?;
    let latencies = connections(server, protocol, threads, |mut client, _| {
        let mut latencies = Vec::new();
        loop {
            let n = next.fetch_add(batch, Ordering::Relaxed);
            if n >= first + count {
                return Ok(latencies);
            }
            let documents = (n..(n + batch).min(first + count)).map(record).collect::<Result<Vec<_>>>()?;
            let began = Instant::now();
            client.insert(&documents)?;
            latencies.push(nanos(began));
        }
    })?;
    begun.done(latencies)
}

/// Runs a workload. `records` is how many there are; inserts add to it.
///
/// # Errors
/// The server's, or a record that is not as it must be.
pub(crate) fn run(
    server: &Process,
    protocol: Protocol,
    what: Run,
    records: &AtomicU64,
    seed: u64,
) -> Result<Done> {
    let Run { workload, choice, threads, length } = what;
    // Numbers are given out before the records exist, so the latest that all connections can rely on are counted apart.
    let there = records.load(Ordering::Relaxed);
    let zipfian = (choice == Choice::Zipfian).then(|| Zipfian::new(there));
    let begun = Beginning::now(Some(server))?;
    let started = begun.at;
    let operations = AtomicU64::new(0);
    let goes_on = || match length {
        Length::Time(time) => started.elapsed() < time,
        Length::Operations(count) => operations.fetch_add(1, Ordering::Relaxed) < count,
    };
    let latencies = connections(server, protocol, threads, |mut client, i| {
        let seed = seed * 1_000 + i;
        let mut zipfian = zipfian.as_ref().map(|zipfian| zipfian.seeded(seed));
        let mut evenly = Random::new(seed, there);
        let mut dice = Random::new(!seed, 100);
        let mut lengths = Random::new(seed ^ 0xe, 100);
        let mut latencies = Vec::new();
        while goes_on() {
            let n = match &mut zipfian {
                None => evenly.next().unwrap_or(0),
                Some(latest) if workload == Workload::D => there - 1 - latest.next(),
                Some(zipfian) => hash(zipfian.next()) % there,
            };
            let write = dice.next().unwrap_or(0) < workload.writes();
            let id = key(n);
            let update = |client: &mut Client, salt: u64| {
                let fresh = UPDATES.fetch_add(1, Ordering::Relaxed);
                client.update(&id, &format!("field{}", salt % FIELDS), &value(n, fresh))
            };
            let salt = lengths.next().unwrap_or(0);
            let began = Instant::now();
            match (workload, write) {
                (Workload::A | Workload::B, true) => update(&mut client, salt)?,
                (Workload::F, true) => {
                    client.read(&id, |found| check(found, Some(n)))?;
                    update(&mut client, salt)?;
                }
                (Workload::D | Workload::E, true) => {
                    client.insert(&[record(records.fetch_add(1, Ordering::Relaxed))?])?;
                }
                (Workload::E, false) => {
                    client.scan(&id, 1 + salt as u32, |found| check(found, None))?;
                }
                _ => client.read(&id, |found| check(found, Some(n)))?,
            }
            latencies.push(nanos(began));
        }
        Ok(latencies)
    })?;
    begun.done(latencies)
}

/// Reads records, chosen evenly, for `time` on so many connections, which are open before the time begins.
///
/// # Errors
/// As [`run`].
pub(crate) fn reads(server: &Process, threads: u64, time: Duration, records: u64, seed: u64) -> Result<Done> {
    let ready = Barrier::new(threads as usize);
    let mut begun = Beginning::now(Some(server))?;
    let done_in = connections(server, Protocol::Mongo, threads, |mut client, i| {
        let mut numbers = Random::new(seed * 1_000_000 + i, records);
        let mut latencies = Vec::new();
        ready.wait();
        let started = Instant::now();
        while started.elapsed() < time {
            let n = numbers.next().unwrap_or(0);
            let began = Instant::now();
            client.read(&key(n), |found| check(found, Some(n)))?;
            latencies.push(nanos(began));
        }
        Ok((started, latencies))
    })?;
    begun.at = done_in.iter().map(|(started, _)| *started).min().unwrap_or(begun.at);
    begun.done(done_in.into_iter().map(|(_, latencies)| latencies).collect())
}

/// Opens so many connections, reads a record by each, and keeps them open.
///
/// # Errors
/// As [`run`].
pub(crate) fn open(server: &Process, count: u64, records: u64) -> Result<Vec<Client>> {
    (0..count)
        .map(|n| {
            let mut client = Client::connect(server, Protocol::Mongo)?;
            client.read(&key(n % records), |found| check(found, Some(n % records)))?;
            Ok(client)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zipfian_choice_prefers_the_first_and_reaches_most() {
        let mut zipfian = Zipfian::new(1_000).seeded(7);
        let mut counts = vec![0_u32; 1_000];
        for _ in 0..100_000 {
            counts[zipfian.next() as usize] += 1;
        }
        // 1 / zeta(1000, .99) = 13 %.
        assert!((12_000..14_500).contains(&counts[0]), "{}", counts[0]);
        assert!(counts[1] > counts[10] && counts[10] > counts[500]);
        assert!(counts.iter().filter(|count| **count > 0).count() > 900);
    }

    #[test]
    fn a_record_is_checked_in_full() {
        let document = record(5).unwrap();
        assert!(document.as_bytes().len() > 1_000);
        check(&document, Some(5)).unwrap();
        assert!(check(&document, Some(6)).is_err());
        assert!(check(&bson::rawdoc! { "_id": 1 }, None).is_err());
    }
}
