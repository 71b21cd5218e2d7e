//! Documents with two indexes beside SQLite and LMDB: inserted, fetched by `_id` and by their indexes, changed, and their
//! bytes on the disk.

use super::{Scale, lookups, packages};
use crate::Result;
use crate::contest::{Side, Turn, Unit, contest};
use crate::people::{CITIES, Names, Random};
use crate::report::{Goals, Row, rows};
use crate::sides::{Class, Documents, LmdbDocuments, Shape, SqliteDocuments, TreeDbDocuments};

pub(super) const ABOUT: &str = "Documents of about 112 bytes as JSON, with a unique index on `email` and an index on \
    `city`, one thread where nothing else is said, everything in memory. Encoding from fields and decoding to fields is inside the timer on all \
    sides. Counts in all and in one city (through the index), or every field fetched, have to agree. Bytes are what \
    the files take from the disk after the logs were folded in; TreeDB's include its command log's laid-out segments. Percentiles \
    are of look-ups timed one by one. Readers and writers are threads over one TreeDB or LMDB; rows against TreeDB itself \
    are of the same documents in the same rounds, and on a machine with two cores two readers and a writer have to share. \
    Debian packages are those that `apt-cache dumpavail` knows of, about 800 bytes each, under numbers, with all their fields, texts but for two sizes; a unique index on \
    name and version, an index on the section. SQLite has a column for every field that any of them has. Every field fetched is looked at, and goes into a checksum that has \
    to agree.";

/// Documents to a transaction in the bulk workloads.
const BATCH: u64 = 16_000;

pub(super) const INSERT: Goals<'_> = &[("SQLite, columns", 3.0)];
pub(super) const BY_ID: Goals<'_> = &[("SQLite, columns", 4.0), ("LMDB", 0.5)];
pub(super) const BY_UNIQUE: Goals<'_> = &[("SQLite, columns", 4.0)];
pub(super) const BY_OTHER: Goals<'_> = &[("SQLite, columns", 5.0)];
const UPDATE: Goals<'_> = &[("SQLite, JSON", 3.0)];
pub(super) const NONE: Goals<'_> = &[];

pub(super) type Make = fn(Class, Names) -> Result<Box<dyn Documents>>;

/// How each side is made, TreeDB first.
pub(super) const SIDES: [(&str, Make); 4] = [
    ("TreeDB", |class, names| Ok(Box::new(TreeDbDocuments::new(class, names)?))),
    ("LMDB", |class, names| Ok(Box::new(LmdbDocuments::new(class, names)?))),
    ("SQLite, columns", |class, names| Ok(Box::new(SqliteDocuments::new(class, Shape::Columns, names)?))),
    ("SQLite, JSON", |class, names| Ok(Box::new(SqliteDocuments::new(class, Shape::Json, names)?))),
];

/// The counts, as one answer.
fn counted(side: &dyn Documents) -> Result<u64> {
    let (all, city) = side.counts()?;
    Ok(all << 32 | city)
}

/// A contest in which every side inserts `count` documents into a new, empty place in each round.
fn inserting(
    scale: Scale,
    class: Class,
    count: u64,
    batch: u64,
    shuffled: bool,
    names: Names,
) -> Result<Vec<crate::contest::Figures>> {
    // Prime to every count there is, so that each number comes once.
    let place = move |i: u64| if shuffled { i.wrapping_mul(7919) % count } else { i };
    let mut turns: Vec<Side<'_>> = SIDES
        .iter()
        .map(|(name, make)| {
            let turn = move |_| {
                let side = make(class, names)?;
                let turn =
                    Turn::timed(count, || side.insert(&mut (0..count).map(place), count, batch).map(|()| 0))?;
                Ok(Turn { answer: Some(counted(side.as_ref())?), ..turn })
            };
            Side { name, turn: Box::new(turn) }
        })
        .collect();
    contest(Unit::OpsPerSecond, scale.rounds, &mut turns)
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let (mut out, mut looked_up) = (Vec::new(), Vec::new());
    let mut add = |workload: &str, class: Class, unit, figures, goals| {
        out.extend(rows(workload, class.label(), unit, figures, goals))
    };

    let (relaxed, unit) = (Class::Relaxed, Unit::OpsPerSecond);
    const INSERTS: [(&str, Class, u64, u64, bool, Names, Goals<'_>); 6] = {
        use Class::{Durable, Relaxed};
        use Names::{Counted, Random};
        [
            (
                "100k, two indexes, ids in order, 16,000 to a commit",
                Relaxed,
                100_000,
                BATCH,
                false,
                Counted,
                INSERT,
            ),
            (
                "100k, two indexes, ids in order, 1,000 to a commit",
                Relaxed,
                100_000,
                1000,
                false,
                Counted,
                INSERT,
            ),
            (
                "100k, two indexes, ids shuffled, 16,000 to a commit",
                Relaxed,
                100_000,
                BATCH,
                true,
                Counted,
                INSERT,
            ),
            (
                "100k, two indexes, random ids and values, 16,000 to a commit",
                Relaxed,
                100_000,
                BATCH,
                false,
                Random,
                INSERT,
            ),
            ("20k, two indexes, 1 to a commit", Relaxed, 20_000, 1, false, Counted, NONE),
            ("500, two indexes, 1 to a commit", Durable, 500, 1, false, Counted, INSERT),
        ]
    };
    for (what, class, count, batch, shuffled, names, goals) in INSERTS {
        let workload = format!("insert {what}");
        if scale.wants(&workload) {
            eprintln!("documents: {workload}");
            let figures = inserting(scale, class, scale.of(count), batch, shuffled, names)?;
            add(&workload, class, unit, figures, goals);
        }
    }

    const SIZES: [(u64, &str, Names); 4] = [
        (10_000, "10k documents", Names::Counted),
        (100_000, "100k documents", Names::Counted),
        (1_000_000, "1M documents", Names::Counted),
        (1_000_000, "1M documents with random ids and values", Names::Random),
    ];
    for (size, label, names) in SIZES {
        if !scale.wants(label) {
            continue;
        }
        eprintln!("documents: reads of {label}");
        let size = scale.of(size);
        let sides: Vec<Box<dyn Documents>> =
            SIDES.iter().map(|(_, make)| make(relaxed, names)).collect::<Result<_>>()?;
        for side in &sides {
            side.insert(&mut (0..size), size, BATCH)?;
            side.settle()?;
        }
        let gets = scale.of(50_000);
        type Get = fn(&dyn Documents, Random, u64) -> Result<u64>;
        let by: [(&str, Get, Goals<'_>); 2] = [
            ("`_id`", |side, mut order, count| side.by_id(&mut order, count), BY_ID),
            ("unique index", |side, mut order, count| side.by_email(&mut order, count), BY_UNIQUE),
        ];
        for (what, get, goals) in by {
            let mut turns: Vec<Side<'_>> = sides
                .iter()
                .map(|side| {
                    let turn =
                        move |r| Turn::timed(gets, || get(side.as_ref(), Random::new(r + 1, size), gets));
                    Side { name: side.name(), turn: Box::new(turn) }
                })
                .collect();
            let figures = contest(Unit::NanosPerOp, scale.rounds, &mut turns)?;
            add(&format!("fetch a document by {what}, {label}"), relaxed, Unit::NanosPerOp, figures, goals);
        }
        let everybody = size / CITIES;
        let mut turns: Vec<Side<'_>> = sides
            .iter()
            .map(|side| {
                let turn = move |r| Turn::timed(everybody, || side.by_city(r));
                Side { name: side.name(), turn: Box::new(turn) }
            })
            .collect();
        let figures = contest(Unit::NanosPerOp, scale.rounds, &mut turns)?;
        add(
            &format!("fetch the documents of one of {CITIES} cities by its index, {label}"),
            relaxed,
            Unit::NanosPerOp,
            figures,
            BY_OTHER,
        );
        let updates = scale.of(20_000);
        let mut turns: Vec<Side<'_>> = sides
            .iter()
            .map(|side| {
                let turn = move |r| {
                    let turn = Turn::timed(updates, || {
                        side.update(&mut Random::new(r + 100, size), updates).map(|()| 0)
                    })?;
                    let answer = side.by_id(&mut Random::new(r + 100, size), updates.min(500))?;
                    Ok(Turn { answer: Some(answer), ..turn })
                };
                Side { name: side.name(), turn: Box::new(turn) }
            })
            .collect();
        let figures = contest(Unit::NanosPerOp, scale.rounds, &mut turns)?;
        add(
            &format!("change a field of a document found by `_id`, 1 to a commit, {label}"),
            relaxed,
            Unit::NanosPerOp,
            figures,
            UPDATE,
        );
        if label != "100k documents" {
            continue;
        }
        // The first two, TreeDB and LMDB, are the ones that several threads may use at once.
        let several = sides.get(..2).unwrap_or_default();
        looked_up.extend(lookups::percentiles(scale, several, size, label)?);
        looked_up.extend(lookups::crowds(scale, several, size, label)?);
        let mut turns: Vec<Side<'_>> = sides
            .iter()
            .map(|side| {
                let turn = move |_| {
                    side.settle()?;
                    Ok(Turn {
                        ops: size,
                        spent: side.folder().bytes()?,
                        answer: Some(counted(side.as_ref())?),
                    })
                };
                Side { name: side.name(), turn: Box::new(turn) }
            })
            .collect();
        let figures = contest(Unit::BytesPerDocument, 1, &mut turns)?;
        add("files of 100k documents with two indexes", relaxed, Unit::BytesPerDocument, figures, NONE);
    }
    out.append(&mut looked_up);
    out.append(&mut packages::run(scale)?);
    Ok(out)
}
