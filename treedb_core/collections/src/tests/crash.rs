//! Power loss at every boundary of a workload of documents: inserts, updates, deletes, creating and dropping
//! indexes (unique ones, built in steps), checkpoints, restarts; for collections with and without a
//! collation.
//!
//! The workload is run once on a recording disk. Then, for each boundary and each possible state of the disk:
//! the database can be opened, `check` passes (every row against every index, in both directions), and the
//! contents are those after some operation: at least the last one acknowledged as durable, at most the last
//! one begun.

use std::io::Write;

use bson::{Bson, doc, rawdoc};
use treedb_testing::{Rng, seeds};

use super::*;
use crate::changes::tests::{present, replay};
use crate::{ChangeLogOptions, Collection, DeleteRequest, IndexSpec, UpdateRequest};
use treedb_query::error::ErrorCode;
use treedb_storage::disk::crash::Crash;
use treedb_storage::{Durability, Reads};

/// One operation of the workload and when it happened, in boundaries of the disk.
struct Done {
    what: String,
    /// The contents after it.
    after: State,
    durable: bool,
    begun: u64,
    acked: u64,
}

struct Run {
    disk: SimDisk,
    dice: Rng,
    state: State,
    done: Vec<Done>,
    next_id: i32,
    /// The change log is on.
    records: bool,
    /// The collections have a case-insensitive collation.
    collated: bool,
    /// Documents have vectors, and the indexes are of these.
    vectors: bool,
}

const NAMES: [&str; 2] = ["shop.orders", "shop.users"];

/// Links of a node of a new vector index, and of one with another definition.
const LINKS: i32 = 4;
const OTHER_LINKS: i32 = 3;

/// The field of a vector index, by how many links a node gets.
type Field = fn(i32) -> Document;

/// Names of vector indexes, and their fields.
const VECTORS: [(&str, Field); 6] = [
    ("codes", |links| vector("v", "cosine", "quantization", "scalar", links)),
    ("floats", |links| vector("v", "cosine", "quantization", "none", links)),
    ("bits of floats", |links| vector("v", "cosine", "quantization", "binary", links)),
    ("bytes", |links| vector("v", "euclidean", "elements", "int8", links)),
    ("halves", |links| vector("v", "manhattan", "elements", "float16", links)),
    ("bits", |links| vector("b", "hamming", "quantization", "none", links)),
];

fn vector(path: &str, similarity: &str, option: &str, value: &str, links: i32) -> Document {
    doc! {
        "path": path, "numDimensions": 4, "similarity": similarity, option: value,
        "hnswOptions": { "maxEdges": links, "numEdgeCandidates": 20 },
    }
}

/// Words of which some are equal ignoring case, and more ignoring accents.
const WORDS: [&str; 6] = ["a", "A", "\u{e1}", "b", "B", ""];

/// The options of a collection with a case-insensitive collation.
fn without_case() -> Document {
    doc! { "collation": { "locale": "en", "strength": 2 } }
}

/// Which documents to change.
#[derive(Clone, Copy)]
enum Wanted {
    /// Documents of a kind.
    Kind(i32),
    /// Documents with a word, ignoring case.
    Word(&'static str),
}

impl Wanted {
    fn filter(self) -> Document {
        match self {
            Wanted::Kind(kind) => doc! { "kind": kind },
            Wanted::Word(word) => doc! { "word": word },
        }
    }

    /// Whether the document matches, for the model.
    fn is(self, doc: &Document) -> bool {
        match self {
            Wanted::Kind(kind) => doc.get_i32("kind").ok() == Some(kind),
            Wanted::Word(word) => {
                doc.get_str("word").is_ok_and(|text| text.to_lowercase() == word.to_lowercase())
            }
        }
    }
}

impl Run {
    fn new(seed: u64) -> Run {
        let (disk, dice) = (SimDisk::new(), Rng::new(seed));
        let nothing = Done { what: "nothing".into(), after: State::new(), durable: true, begun: 0, acked: 0 };
        Run {
            disk,
            dice,
            state: State::new(),
            done: vec![nothing],
            next_id: 0,
            records: seed.is_multiple_of(2),
            collated: false,
            vectors: false,
        }
    }

    fn document(&mut self) -> Document {
        self.next_id += 1;
        let tags: Vec<i32> = (0..self.dice.below(4)).map(|_| self.dice.below(6) as i32).collect();
        // Some rows are stored in the value log.
        let long = if self.dice.chance(10) { 3000 } else { 40 };
        let mut doc = doc! {
            "_id": self.next_id, "kind": self.dice.below(5) as i32, "tags": tags, "serial": 1000 - self.next_id,
            "same": 1, "note": "n".repeat(self.dice.below(long)),
        };
        if self.collated {
            let code = format!("{}{}", if self.dice.chance(50) { 'c' } else { 'C' }, self.next_id);
            doc.extend(doc! { "word": WORDS[self.dice.below(WORDS.len())], "code": code });
        }
        if self.vectors {
            doc.extend([("v".to_owned(), self.vectors()), ("b".to_owned(), self.bits())]);
        }
        // Some documents need a new shape.
        if self.dice.chance(8) {
            doc.insert(format!("only {}", self.next_id), doc! { "here": self.next_id });
        }
        doc
    }

    /// Vectors, or something else.
    fn vectors(&mut self) -> Bson {
        match self.dice.below(3) {
            0 => (0..self.dice.below(4)).map(|_| self.vector()).collect::<Vec<_>>().into(),
            _ => self.vector(),
        }
    }

    /// Four bits.
    fn bits(&mut self) -> Bson {
        (0..4).map(|_| i32::from(self.dice.chance(50))).collect::<Vec<_>>().into()
    }

    /// Gives one of the vector indexes of a collection another definition.
    fn update_search_index(
        &mut self,
        collection: &Collection,
        contents: Option<&mut Contents>,
    ) -> Result<()> {
        let Some(contents) = contents.filter(|contents| !contents.links.is_empty()) else { return Ok(()) };
        let at = self.dice.below(contents.links.len());
        let Some((name, links)) = contents.links.iter_mut().nth(at) else { return Ok(()) };
        *links = if *links == LINKS { OTHER_LINKS } else { LINKS };
        let (_, field) = VECTORS.iter().find(|(own, _)| own == name).unwrap();
        let typed = |own: Document| {
            let mut vector = doc! { "type": "vector" };
            vector.extend(own);
            vector
        };
        let mut fields = vec![typed(field(*links))];
        // One of another path comes and goes with the other number of links.
        if *links == OTHER_LINKS {
            let path = |own: &Document| own.get_str("path").unwrap().to_owned();
            let others = VECTORS.iter().rev().map(|(_, other)| other(LINKS));
            let own = path(&fields[0]);
            fields.extend(others.filter(|other| path(other) != own).take(1).map(typed));
        }
        collection.update_search_index(name, &raw(&doc! { "fields": fields }))
    }

    /// A vector of the right dimensions, or of others.
    fn vector(&mut self) -> Bson {
        let dimensions = if self.dice.chance(10) { 2 } else { 4 };
        (0..dimensions).map(|_| self.dice.below(100) as i32 - 50).collect::<Vec<_>>().into()
    }

    /// Inserts several documents; one of them may have an existing `_id`, and is then refused.
    fn insert_many(&mut self, collection: &Collection, contents: &mut Contents) -> Result<()> {
        let mut docs: Vec<Document> = (0..2 + self.dice.below(24)).map(|_| self.document()).collect();
        if let Some((&old, _)) = contents.docs.first_key_value().filter(|_| self.dice.chance(40)) {
            docs[1].insert("_id", old);
        }
        let outcome = collection.insert_many(&docs.iter().map(raw).collect::<Vec<_>>(), false)?;
        let mut inserted = 0;
        for doc in docs {
            if let std::collections::btree_map::Entry::Vacant(place) =
                contents.docs.entry(doc.get_i32("_id").unwrap())
            {
                place.insert(doc);
                inserted += 1;
            }
        }
        assert_eq!(outcome.inserted, inserted, "{:?}", outcome.errors);
        Ok(())
    }

    /// Tries to create a unique index on a field that has the same value in all documents, which fails if
    /// there are two. With a collation: on a field with two strings that are equal ignoring case.
    fn refused_index(&self, collection: &Collection, contents: Option<&Contents>) -> Result<()> {
        let mut seen = BTreeSet::new();
        let twice = contents.is_some_and(|contents| {
            let word = |doc: &Document| doc.get_str("word").unwrap_or_default().to_lowercase();
            contents.docs.values().any(|doc| !seen.insert(word(doc)))
        });
        if twice {
            let field = if self.collated { "word" } else { "same" };
            let refused =
                collection.create_index(IndexSpec::new(raw(&doc! { field: 1 })).unique().name("no"));
            match refused {
                Err(error) if error.code == ErrorCode::DuplicateKey => {}
                Err(error) => return Err(error),
                Ok(name) => panic!("{name} was created"),
            }
        }
        Ok(())
    }

    /// The filter of an update of many documents.
    fn wanted(&mut self, kind: i32) -> Wanted {
        if self.collated { Wanted::Word(WORDS[self.dice.below(WORDS.len())]) } else { Wanted::Kind(kind) }
    }

    /// The indexes that the workload creates.
    fn specs(&self) -> Vec<IndexSpec> {
        let on = |key: Document| IndexSpec::new(raw(&key));
        if self.vectors {
            let vectors =
                VECTORS.iter().map(|(name, field)| IndexSpec::vector(raw(&field(LINKS))).name(*name));
            return vectors.chain([on(doc! { "kind": 1 })]).collect();
        }
        if !self.collated {
            return vec![
                on(doc! { "kind": 1, "_id": -1 }),
                on(doc! { "tags": -1 }),
                on(doc! { "serial": 1 }).unique(),
                on(doc! { "tags": 1 }).sparse(),
                on(doc! { "kind": -1 }).partial(raw(&doc! { "kind": { "$gte": 3 } })),
                on(doc! { "tags.$**": 1 }),
                on(doc! { "serial": "hashed" }),
                // Some notes are longer than stored keys, and all have the same prefix.
                on(doc! { "note": -1 }),
                on(doc! { "note": 1, "serial": 1 }).unique(),
            ];
        }
        vec![
            on(doc! { "word": 1 }),
            on(doc! { "word": 1 }).name("by bytes").collation(rawdoc! { "locale": "simple" }),
            on(doc! { "word": -1, "kind": 1 }).collation(rawdoc! { "locale": "fr", "strength": 1 }),
            on(doc! { "code": 1 }).unique(),
            on(doc! { "code": "hashed" }),
            on(doc! { "kind": 1 }).partial(raw(&doc! { "word": { "$gte": "B" } })),
            on(doc! { "word.$**": 1 }),
        ]
    }

    /// Runs one operation and applies it to the model.
    fn step(&mut self, db: &Database) -> Result<()> {
        let name = NAMES[self.dice.below(NAMES.len())];
        let durability = match self.dice.below(10) {
            0..5 => Durability::Durable,
            5..8 => Durability::Relaxed,
            _ => Durability::None,
        };
        let collection = db.collection(name)?.with_durability(durability);
        let mut begun = self.disk.boundaries();
        let mut after = self.state.clone();
        let kind = self.dice.below(5) as i32;
        let roll = self.dice.below(100);
        // Indexes and drops have the database's durability: they are always durable.
        let replaces = self.vectors && (70..76).contains(&roll);
        let ddl = replaces || roll >= 76 && !(85..88).contains(&roll);
        let what = match roll {
            _ if replaces => {
                self.update_search_index(&collection, after.get_mut(name))?;
                "update search index".to_owned()
            }
            0..25 => {
                let doc = self.document();
                collection.insert_one(raw(&doc))?;
                let contents = after.entry(name.to_owned()).or_insert_with(Contents::fresh);
                contents.docs.insert(doc.get_i32("_id").unwrap(), doc);
                "insert".to_owned()
            }
            25..42 => {
                let contents = after.entry(name.to_owned()).or_insert_with(Contents::fresh);
                self.insert_many(&collection, contents)?;
                "insert many".to_owned()
            }
            42..66 => {
                let tags = vec![self.dice.below(6) as i32; self.dice.below(3)];
                let note = "n".repeat(self.dice.below(10) * 150);
                let mut set = doc! { "tags": tags, "note": note };
                if self.vectors {
                    set.extend([("v".to_owned(), self.vectors()), ("b".to_owned(), self.bits())]);
                }
                let update = doc! { "$inc": { "kind": 1 }, "$set": set.clone() };
                let wanted = self.wanted(kind);
                collection.update(UpdateRequest::many(raw(&wanted.filter()), raw(&update)))?;
                for doc in after.get_mut(name).into_iter().flat_map(|contents| contents.docs.values_mut()) {
                    if wanted.is(doc) {
                        doc.insert("kind", doc.get_i32("kind").unwrap() + 1);
                        doc.extend(set.clone());
                    }
                }
                "update many".to_owned()
            }
            66..76 => {
                collection.delete(DeleteRequest::many(raw(&doc! { "kind": { "$gte": kind + 3 } })))?;
                if let Some(contents) = after.get_mut(name) {
                    contents.docs.retain(|_, doc| doc.get_i32("kind").unwrap() < kind + 3);
                }
                "delete many".to_owned()
            }
            76..85 => {
                let mut specs = self.specs();
                // Those that have another definition now would be refused.
                let links = after.get(name).map(|contents| contents.links.clone()).unwrap_or_default();
                specs.retain(|spec| links.get(&spec.index_name().unwrap()) != Some(&OTHER_LINKS));
                let index = collection.create_index(specs[self.dice.below(specs.len())].clone())?;
                let contents = after.entry(name.to_owned()).or_insert_with(Contents::fresh);
                contents.indexes.insert(index.clone());
                if VECTORS.iter().any(|(name, _)| *name == index) {
                    contents.links.insert(index.clone(), LINKS);
                }
                format!("create index {index}")
            }
            85..88 => {
                // Changes both collections; one document is inserted and deleted in the batch.
                let docs = NAMES.map(|name| (name, self.document()));
                let passing = rawdoc! { "_id": -1, "serial": -1, "code": "none" };
                let gone = || DeleteRequest::one(rawdoc! { "_id": -1 });
                let more =
                    || UpdateRequest::many(rawdoc! { "kind": kind }, rawdoc! { "$inc": { "kind": 1 } });
                if self.next_id % 4 < 2 {
                    let mut txn = db.begin()?;
                    for (name, doc) in &docs {
                        let mut mine = txn.collection(name)?;
                        mine.insert_one(&passing)?;
                        mine.insert_one(raw(doc))?;
                        mine.delete(gone())?;
                        mine.update(more())?;
                    }
                    txn.commit_with(durability)?;
                } else {
                    let mut all = db.write_batch()?;
                    for (name, doc) in &docs {
                        let inserted =
                            all.insert_many(name, &[passing.clone(), raw(doc), passing.clone()], true)?;
                        assert_eq!(inserted.inserted, 2);
                        all.delete(name, gone())?;
                        all.update(name, more())?;
                    }
                    all.commit_with(durability)?;
                }
                for (name, doc) in docs {
                    let contents = after.entry(name.to_owned()).or_insert_with(Contents::fresh);
                    contents.docs.insert(doc.get_i32("_id").unwrap(), doc);
                    for doc in contents.docs.values_mut().filter(|doc| doc.get_i32("kind").ok() == Some(kind))
                    {
                        doc.insert("kind", kind + 1);
                    }
                }
                "transaction".to_owned()
            }
            88..91 => {
                self.refused_index(&collection, after.get(name))?;
                "refused index".to_owned()
            }
            91..95 => {
                let names = after.get(name).map(|contents| contents.indexes.clone()).unwrap_or_default();
                if let Some(index) = names.iter().find(|name| *name != "_id_") {
                    collection.drop_index(index)?;
                    let contents = after.get_mut(name).unwrap();
                    contents.indexes.remove(index);
                    contents.links.remove(index);
                }
                "drop index".to_owned()
            }
            95 => {
                db.drop_collection(name)?;
                after.remove(name);
                if self.collated {
                    self.finished("drop collection".to_owned(), after.clone(), true, begun);
                    begun = self.create(db, name)?;
                    after.insert(name.to_owned(), Contents::fresh());
                    "create collection".to_owned()
                } else {
                    "drop collection".to_owned()
                }
            }
            96 if after.contains_key(name) => {
                // In the place of the other, if there is one.
                let other = NAMES.into_iter().find(|other| *other != name).unwrap();
                db.rename_collection(name, other, true)?;
                let renamed = after.remove(name).unwrap();
                after.insert(other.to_owned(), renamed);
                if self.collated {
                    self.finished("rename collection".to_owned(), after.clone(), true, begun);
                    begun = self.create(db, name)?;
                    after.insert(name.to_owned(), Contents::fresh());
                    "create collection".to_owned()
                } else {
                    "rename collection".to_owned()
                }
            }
            _ => {
                db.checkpoint()?;
                "checkpoint".to_owned()
            }
        };
        // An operation without effect may write nothing, and then does not make earlier operations durable.
        let changed = self.state != after;
        let durable = (durability == Durability::Durable || ddl) && changed || what == "checkpoint";
        self.finished(what, after, durable, begun);
        Ok(())
    }

    fn finished(&mut self, what: String, after: State, durable: bool, begun: u64) {
        self.state.clone_from(&after);
        self.done.push(Done { what, after, durable, begun, acked: self.disk.boundaries() });
    }

    /// Creates a collection with a case-insensitive collation; returns the boundary before it.
    fn create(&self, db: &Database, name: &str) -> Result<u64> {
        let begun = self.disk.boundaries();
        db.create_collection(name, without_case())?;
        Ok(begun)
    }

    fn go(&mut self, steps: usize) -> Result<()> {
        let mut db = open(&self.disk)?;
        for name in if self.collated { &NAMES[..] } else { &[] } {
            let begun = self.create(&db, name)?;
            let mut after = self.state.clone();
            after.insert((*name).to_owned(), Contents::fresh());
            self.finished("create collection".to_owned(), after, true, begun);
        }
        if self.records {
            db.record_changes(Some(ChangeLogOptions::default()))?;
        }
        for step in 0..steps {
            if step % 23 == 22 {
                let begun = self.disk.boundaries();
                db.close()?;
                self.finished("close".to_owned(), self.state.clone(), true, begun);
                db = open(&self.disk)?;
            }
            self.step(&db)?;
        }
        assert_eq!(dump(&db)?, self.state);
        db.check()?;
        Ok(())
    }

    /// The states that are allowed after a power cut at `point`, oldest first.
    fn allowed(&self, point: u64) -> &[Done] {
        let acked = self.done.iter().rposition(|done| done.durable && done.acked <= point).unwrap_or(0);
        let begun = self.done.iter().take_while(|done| done.begun <= point).count();
        &self.done[acked..begun]
    }
}

/// Opens the database after a crash and compares it with the allowed states.
fn verify(disk: &SimDisk, collated: bool, allowed: &[Done], what: &dyn Fn() -> String) {
    let db = open(disk).unwrap_or_else(|error| panic!("{}: {error}", what()));
    let report = db.check().unwrap_or_else(|error| panic!("{}: check: {error}", what()));
    let state = dump(&db).unwrap_or_else(|error| panic!("{}: {error}", what()));
    // Every change has exactly one record in the change log.
    if db.change_log().unwrap().is_some() {
        assert_eq!(replay(&db).unwrap(), present(&db).unwrap(), "{}", what());
    }
    for name in state.keys() {
        let own = db.collection(name).unwrap().collation().unwrap();
        assert_eq!(own.is_simple(), !collated, "{}: {name}", what());
    }
    let tables = db.store().begin_read().unwrap().tables().unwrap();
    assert!(tables.iter().all(|table| !table.name().ends_with("/new")), "{}: {tables:?}", what());
    // Skips the work of closing it.
    disk.cut_at(disk.boundaries());
    drop(db);
    for collection in report.collections {
        let listed = &state[&collection.namespace].indexes;
        let there: BTreeSet<String> = collection.indexes.into_iter().map(|(name, _)| name).collect();
        assert_eq!(*listed, there, "{}: an index is still being built", what());
    }
    assert!(
        allowed.iter().any(|done| done.after == state),
        "{}: the state found is none of those after {:?}",
        what(),
        allowed.iter().map(|done| &done.what).collect::<Vec<_>>()
    );
}

fn cut_everywhere(mut run: Run, seed: u64, steps: usize, random: usize) {
    let collated = run.collated;
    run.disk.record();
    run.go(steps).unwrap();
    let sample = run.disk.boundaries() as usize / 2;
    let mut replay = run.disk.replay();
    let (mut boundaries, mut images, mut again) = (0, 0, 0);
    while let Some(point) = replay.next_point() {
        boundaries += 1;
        let allowed = run.allowed(point);
        for (i, crash) in Crash::variants(point ^ seed, random).into_iter().enumerate() {
            let what = || format!("seed {seed}, power cut after {point} calls, {crash:?}");
            let disk = replay.crash(crash);
            let nested = (point as usize + 7 * i).is_multiple_of(sample);
            if nested {
                disk.record();
            }
            verify(&disk, collated, allowed, &what);
            images += 1;
            // The power fails again at any boundary of the recovery and of the index builds that it resumes.
            let mut recovery = disk.replay();
            while let Some(inner) = recovery.next_point().filter(|_| nested) {
                for crash in [Crash::Nothing, Crash::OddSectors, Crash::NamesLost, Crash::Random(inner)] {
                    let what = || format!("{}, then again after {inner} calls, {crash:?}", what());
                    verify(&recovery.crash(crash), collated, allowed, &what);
                    again += 1;
                }
            }
        }
    }
    let _ = writeln!(
        std::io::stdout().lock(),
        "\nsummary: documents crash (seed {seed}): {} operations, {boundaries} boundaries x {} outcomes, \
         {again} recoveries cut short, 0 violations",
        run.done.len(),
        images / boundaries
    );
    assert!(boundaries > 50 && images >= 8 * boundaries && again > 500);
}

#[test]
fn documents_and_indexes_survive_power_loss() {
    for seed in seeds(1..=3) {
        cut_everywhere(Run::new(seed), seed, 80, 2);
    }
}

#[test]
fn collections_with_a_collation_survive_power_loss() {
    cut_everywhere(Run { collated: true, ..Run::new(4) }, 4, 70, 1);
}

#[test]
fn vector_indexes_survive_power_loss() {
    cut_everywhere(Run { vectors: true, ..Run::new(6) }, 6, 60, 1);
}

#[test]
fn an_interrupted_index_build_is_finished_or_dropped_when_the_database_opens() {
    let mut run = Run::new(1);
    let db = open(&run.disk).unwrap();
    let collection = db.collection("shop.orders").unwrap();
    let docs: Vec<_> = (0..60).map(|_| run.document()).collect();
    collection.insert_many(&docs.iter().map(raw).collect::<Vec<_>>(), true).unwrap();
    let before = dump(&db).unwrap();
    let begun = run.disk.boundaries();
    run.finished("insert".to_owned(), before.clone(), true, begun);
    run.disk.record();
    run.refused_index(&collection, before.get("shop.orders")).unwrap();
    run.finished("refused index".to_owned(), before, true, begun);
    let begun = run.disk.boundaries();
    collection.create_index(IndexSpec::new(raw(&doc! { "serial": 1 })).unique()).unwrap();
    run.finished("create index".to_owned(), dump(&db).unwrap(), true, begun);
    cut_at_every_boundary(&run);
}

#[test]
fn a_vector_index_whose_graph_is_built_in_memory_is_finished_when_the_database_opens() {
    let mut run = Run { vectors: true, ..Run::new(2) };
    let db = open(&run.disk).unwrap();
    let collection = db.collection("shop.orders").unwrap();
    let docs: Vec<_> = (0..90).map(|_| run.document()).collect();
    collection.insert_many(&docs.iter().map(raw).collect::<Vec<_>>(), true).unwrap();
    let begun = run.disk.boundaries();
    run.finished("insert".to_owned(), dump(&db).unwrap(), true, begun);
    run.disk.record();
    let specs = run.specs();
    for spec in specs {
        let begun = run.disk.boundaries();
        collection.create_index(spec).unwrap();
        run.finished("create index".to_owned(), dump(&db).unwrap(), true, begun);
    }
    cut_at_every_boundary(&run);
}

/// Cuts the power at every boundary that was recorded.
fn cut_at_every_boundary(run: &Run) {
    let mut replay = run.disk.replay();
    let mut boundaries = 0;
    while let Some(point) = replay.next_point() {
        boundaries += 1;
        for crash in Crash::variants(point, 4) {
            verify(&replay.crash(crash), false, run.allowed(point), &|| {
                format!("after {point} calls, {crash:?}")
            });
        }
    }
    assert!(boundaries > 6, "{boundaries}");
}
