//! The packages of a Debian distribution as documents.

use std::collections::{BTreeMap, BTreeSet};

use bench_common::Random;

use super::Scale;
use super::documents::{BY_ID, BY_OTHER, BY_UNIQUE, INSERT, NONE};
use crate::Result;
use crate::comparison::{Candidate, Measurement, Unit, compare};
use crate::debian_packages::{PackageStore, available};
use crate::engines::DurabilityClass;
use crate::engines::package_stores::{LmdbPackages, SqlitePackages};
use crate::engines::treedb::TreeDbPackages;
use crate::report::{Row, rows};

type Open = fn(&[String]) -> Result<Box<dyn PackageStore>>;

/// The engines, TreeDB first, and how each is opened, given all field names.
const ENGINES: [(&str, Open); 4] = [
    ("TreeDB", |_| Ok(Box::new(TreeDbPackages::new()?))),
    ("LMDB", |_| Ok(Box::new(LmdbPackages::new()?))),
    ("SQLite, columns", |columns| Ok(Box::new(SqlitePackages::new(Some(columns))?))),
    ("SQLite, JSON", |_| Ok(Box::new(SqlitePackages::new(None)?))),
];

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut out = Vec::new();
    if !scale.wants("Debian packages") {
        return Ok(out);
    }
    let mut packages = available();
    packages.truncate(scale.of(packages.len() as u64) as usize);
    if packages.len() < 100 {
        eprintln!(
            "documents: skipping Debian packages, because apt has no package lists (apt-get update fetches them)"
        );
        return Ok(out);
    }
    eprintln!("documents: {} Debian packages", packages.len());
    let columns: Vec<String> = {
        let names: BTreeSet<&String> =
            packages.iter().flat_map(|p| p.0.iter().map(|(name, _)| name)).collect();
        names.into_iter().cloned().collect()
    };
    let label = DurabilityClass::Relaxed.label();
    let count = packages.len() as u64;
    let sample: Vec<u64> = (0..count.min(200)).collect();

    // Each round fills new stores; those of the last round are used by what follows.
    let mut filled =
        ENGINES.iter().map(|(_, open)| open(&columns)).collect::<Result<Vec<Box<dyn PackageStore>>>>()?;
    let mut candidates: Vec<Candidate<'_>> = ENGINES
        .iter()
        .zip(&mut filled)
        .map(|((name, open), store)| {
            let (packages, columns, sample) = (&packages, &columns, &sample);
            let run = move |_| {
                *store = open(columns)?;
                let measured = Measurement::wall_clock(count, || store.insert(packages).map(|()| 0))?;
                Ok(Measurement { checksum: Some(store.find_by_id(sample)?), ..measured })
            };
            Candidate { name, run: Box::new(run) }
        })
        .collect();
    let samples = compare(Unit::OpsPerSecond, scale.rounds, &mut candidates)?;
    drop(candidates);
    out.extend(rows(
        "insert all Debian packages, two indexes, 1,000 per commit",
        label,
        Unit::OpsPerSecond,
        samples,
        INSERT,
    ));

    for store in &filled {
        store.checkpoint()?;
    }
    let gets = scale.of(30_000);
    let order = |round: u64| Random::new(round + 1, count).take(gets as usize).collect::<Vec<u64>>();
    let name = |number: u64| {
        let package = packages.get(number as usize);
        package.map_or(("", ""), |package| (package.text("Package"), package.text("Version")))
    };
    let mut largest: Vec<(usize, &str)> = {
        let mut sizes = BTreeMap::new();
        packages.iter().for_each(|package| *sizes.entry(package.text("Section")).or_insert(0) += 1);
        sizes.into_iter().map(|(section, size)| (size, section)).collect()
    };
    largest.sort_unstable_by(|a, b| b.cmp(a));
    type Read<'r> = dyn Fn(&dyn PackageStore, u64) -> Result<Measurement> + 'r;
    let reads: [(&str, &Read<'_>, _); 3] = [
        (
            "find a Debian package by `_id`",
            &|store, round| {
                let order = order(round);
                Measurement::wall_clock(gets, || store.find_by_id(&order))
            },
            BY_ID,
        ),
        (
            "find a Debian package by name and version, a unique index",
            &|store, round| {
                let names: Vec<_> = order(round).into_iter().map(name).collect();
                Measurement::wall_clock(gets, || store.find_by_name(&names))
            },
            BY_UNIQUE,
        ),
        (
            "find the Debian packages of a section by its index",
            &|store, round| {
                let (size, section) = largest[round as usize % largest.len().min(20)];
                Measurement::wall_clock(size as u64, || store.find_by_section(section))
            },
            BY_OTHER,
        ),
    ];
    for (workload, read, goals) in reads {
        let mut candidates: Vec<Candidate<'_>> = filled
            .iter()
            .map(|store| {
                let run = move |round| read(store.as_ref(), round);
                Candidate { name: store.name(), run: Box::new(run) }
            })
            .collect();
        let samples = compare(Unit::NanosPerOp, scale.rounds, &mut candidates)?;
        out.extend(rows(workload, label, Unit::NanosPerOp, samples, goals));
    }
    let mut candidates: Vec<Candidate<'_>> = filled
        .iter()
        .map(|store| {
            let run = move |_| Ok(Measurement { ops: count, spent: store.bytes_on_disk()?, checksum: None });
            Candidate { name: store.name(), run: Box::new(run) }
        })
        .collect();
    let samples = compare(Unit::BytesPerDocument, scale.rounds, &mut candidates)?;
    out.extend(rows(
        "file size, all Debian packages with two indexes",
        label,
        Unit::BytesPerDocument,
        samples,
        NONE,
    ));
    Ok(out)
}
