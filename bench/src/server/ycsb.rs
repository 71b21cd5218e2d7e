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
//! records equally often.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench_common::Random;

use super::client::{Client, Protocol};
use super::done::{Beginning, Done, nanos};
use super::process::Process;
use super::record::{FIELDS, check, hash, key, record, value};
use crate::Result;

/// Records before the first workload.
pub(crate) const RECORDS: u64 = 200_000;

/// Updates so far, and some: no two write the same. What a record has already would not be written at all, and a workload is run again and
/// again, with the same choices.
static UPDATES: AtomicU64 = AtomicU64::new(FIELDS);

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
    pub(crate) fn name(self, choice: Choice) -> String {
        let name = match (self, choice) {
            (Workload::A, _) => "YCSB A, half updates",
            (Workload::B, _) => "YCSB B, 5 % updates",
            (Workload::C, _) => "YCSB C, reads",
            (Workload::D, Choice::Zipfian) => "YCSB D, latest, 5 % inserts",
            (Workload::D, Choice::Uniform) => "YCSB D, 5 % inserts",
            (Workload::E, _) => "YCSB E, scans, 5 % inserts",
            (Workload::F, _) => "YCSB F, half read-modify-write",
        };
        format!("{name}{}", if choice == Choice::Uniform { ", uniform" } else { "" })
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

/// So many connections.
///
/// # Errors
/// The server's.
pub(super) fn connect(server: &Process, protocol: Protocol, count: u64) -> Result<Vec<Client>> {
    (0..count).map(|_| Client::connect(server, protocol)).collect()
}

/// Runs `each` on all of these connections at once, with their numbers.
///
/// # Errors
/// Those of `each`.
pub(super) fn at_once<T: Send>(
    clients: Vec<Client>,
    each: impl Fn(Client, u64) -> Result<T> + Sync,
) -> Result<Vec<T>> {
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
    let clients = connect(server, protocol, threads)?;
    let begun = Beginning::now(Some(server))?;
    let latencies = at_once(clients, |mut client, _| {
        let mut latencies = Vec::new();
        loop {
            let n = next.fetch_add(batch, Ordering::Relaxed);
            if n >= first + count {
                return Ok(latencies);
            }
            let form = client.form();
            let numbers = n..(n + batch).min(first + count);
            let records = numbers.map(|n| record(n, form)).collect::<Result<Vec<_>>>()?;
            let began = Instant::now();
            client.insert(&records)?;
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
    let clients = connect(server, protocol, threads)?;
    let begun = Beginning::now(Some(server))?;
    let started = begun.at;
    let operations = AtomicU64::new(0);
    let goes_on = || match length {
        Length::Time(time) => started.elapsed() < time,
        Length::Operations(count) => operations.fetch_add(1, Ordering::Relaxed) < count,
    };
    let latencies = at_once(clients, |mut client, i| {
        let form = client.form();
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
                    client.insert(&[record(records.fetch_add(1, Ordering::Relaxed), form)?])?;
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
}
