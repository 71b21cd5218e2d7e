//! A table of documents for the query layer: [`Source`] under one snapshot.
//!
//! A row's id is its address: block times 65,536 and offset. An index leads to the root of a HOT chain, a scan to
//! the row version itself; [`Reader::fetch`] takes both.

use std::cell::Cell;
use std::rc::Rc;

use ::bson::RawDocument;
use pgrx::{check_for_interrupts, pg_sys};
use treedb_query::access::statistics::PathStatistics;
use treedb_query::access::{
    Direction, Flow, IndexInfo, KeyRange, Probe, RowId, Source, VisitRow, VisitRowId, VisitRowIds,
};
use treedb_query::doc::{Value, key};
use treedb_query::index::Definition;
use treedb_query::index::ordered::{FETCH, IndexDef, Kind as KeyKind, type_bits_of};
use treedb_query::query::{Plan, Query, Result};

use super::catalog_cache::{Known, KnownIndex};
use super::index::{self, Index, Kind};
use super::search_index::SearchIndex;
use super::statistics::KnownStatistics;
use super::table::Table;
use crate::index_am::keyset_scan::{self, KeysetScan};
pub(super) use crate::index_am::keyset_scan::{row_id, row_of_id as address};
use crate::shim::btree_scan::{BtreeKey, BtreeScan, Entry};
use crate::shim::datum::{Bytes, Datum};
use crate::shim::heap;
use crate::shim::row_claims::RowClaims;
use crate::shim::scan_team::SharedScan;
use crate::shim::setting::Counter;
use crate::shim::snapshot::Registered;
use crate::shim::table::{Fetch, Slot, TableScan, VisiblePages};
use crate::types::bson;
use crate::types::value;

/// The document of the row in a slot; `None` where the column is NULL.
pub(super) fn document<'s>(slot: &'s Slot, table: &Table) -> Option<Bytes<'s>> {
    slot.value(table.doc).map(Datum::bytes)
}

/// How often a table has been opened with its indexes to estimate what a search takes.
pub(crate) static ESTIMATED: Counter = Counter::new(
    c"treedb.estimated_searches",
    c"How often the indexes of a table have been opened for estimates.",
);

/// A part of a scan that several processes share. It goes on where it was, as no address says what is left of it.
struct SharedPart {
    scan: SharedScan,
    begun: Cell<Option<TableScan<'static>>>,
}

/// A collection as a snapshot shows it.
pub(super) struct Reader {
    pub(super) table: Table,
    pub(super) snapshot: Registered,
    /// Those of its indexes that are open and usable.
    pub(super) indexes: Vec<Index>,
    infos: Vec<IndexInfo>,
    /// The last of `infos`, in a search for vectors.
    search_index: Option<SearchIndex>,
    known: Rc<Known>,
    fetch: Fetch,
    /// The slot of [`Reader::fetch`], unless one is in progress.
    spare: Cell<Option<Slot>>,
    /// The scan that this process has a part of, and the part once it has begun.
    shared: Option<SharedPart>,
    /// What says which rows are this process's, if other processes return the others.
    claims: Option<RowClaims>,
    /// Which pages need not be read for a row that is only counted.
    visible: Option<VisiblePages>,
    statistics: KnownStatistics,
}

impl Reader {
    /// Reads `table` under the active snapshot, by all of its indexes.
    pub(super) fn new(table: Table) -> Reader {
        let mut reader = Reader::without_indexes(table, Registered::active());
        reader.open(|_| true);
        reader.read_facts();
        reader
    }

    /// The same for an estimate: indexes that cannot be read are left out, as the query may do without them.
    pub(super) fn for_estimate(table: Table) -> Reader {
        Reader::for_estimate_by(table, |_| true)
    }

    /// The same for an estimate of one query.
    pub(super) fn for_estimate_of(table: Table, query: &Query) -> Reader {
        Reader::for_estimate_by(table, |def| query.may_use(def))
    }

    fn for_estimate_by(table: Table, wanted: impl Fn(&IndexDef) -> bool) -> Reader {
        ESTIMATED.add();
        let mut reader = Reader::without_indexes(table, Registered::active());
        reader.open(wanted);
        reader.indexes.retain_mut(Index::knows_facts);
        reader.infos = reader.indexes.iter().map(Index::info).collect();
        reader
    }

    /// Reads `table` under a snapshot, by the indexes that a query may use: to open the others takes longer than to
    /// find a document. What the reader allocates is in the memory context that is current now; what it allocates while
    /// it reads is not used later.
    pub(super) fn for_query(table: Table, snapshot: Registered, query: &Query) -> Reader {
        let mut reader = Reader::without_indexes(table, snapshot);
        reader.open_for(query);
        reader
    }

    /// Reads `table` under a snapshot; indexes are opened later.
    pub(super) fn without_indexes(table: Table, snapshot: Registered) -> Reader {
        let known = index::known(&table);
        Reader::knowing(table, known, snapshot)
    }

    /// Reads the part of a shared scan that falls to this process, under a snapshot that is the scan's.
    pub(super) fn of_part(table: Table, snapshot: Registered, scan: SharedScan) -> Reader {
        let known = Known { doc: table.doc, indexes: Vec::new(), others: Vec::new() };
        let shared = Some(SharedPart { scan, begun: Cell::new(None) });
        Reader { shared, ..Reader::knowing(table, Rc::new(known), snapshot) }
    }

    fn knowing(table: Table, known: Rc<Known>, snapshot: Registered) -> Reader {
        let (fetch, slot) = Fetch::begin_with_slot(&table.relation);
        let spare = Cell::new(Some(slot));
        let (indexes, infos, statistics) = (Vec::new(), Vec::new(), KnownStatistics::default());
        let (search_index, visible, shared, claims) = (None, None, None, None);
        Reader {
            table,
            snapshot,
            indexes,
            infos,
            search_index,
            known,
            fetch,
            spare,
            shared,
            claims,
            visible,
            statistics,
        }
    }

    /// The same, of rows that this process claims: those of other processes are taken for rows that the snapshot does not show.
    pub(super) fn claiming(self, claims: RowClaims) -> Reader {
        Reader { claims: Some(claims), ..self }
    }

    /// The same for a search by an index of vectors. No other index is opened afterwards.
    pub(super) fn with_search_index(mut self, index: SearchIndex) -> Reader {
        self.infos.push(IndexInfo::new(Definition::Vector(index.def.clone()), false));
        self.search_index = Some(index);
        self
    }

    /// All indexes that are a collection's, open or not.
    pub(super) fn known_indexes(&self) -> &[KnownIndex] {
        &self.known.indexes
    }

    /// Makes sure that the indexes that a query may use are open. Those that are already keep their numbers.
    pub(super) fn open_for(&mut self, query: &Query) {
        self.open(|def| query.may_use(def));
        self.read_facts();
    }

    /// The same for a query that is only about the values of a field. Without [`Reader::read_facts`], every index is taken for
    /// one whose keys decide nothing.
    pub(super) fn open_on(&mut self, field: &[u8]) {
        self.open(|def| {
            matches!(def.options.kind, KeyKind::Wildcard(_))
                || def.keys.iter().any(|part| part.path.as_str().as_bytes() == field)
        });
    }

    fn open(&mut self, wanted: impl Fn(&IndexDef) -> bool) {
        for known in &self.known.indexes {
            let is_open = self.indexes.iter().any(|index| index.relation.get().oid() == known.oid);
            if !is_open && wanted(&known.def) {
                let index = Index::open_without_facts(known);
                if index.usable {
                    self.infos.push(index.info());
                    self.indexes.push(index);
                }
            }
        }
    }

    /// Reads what holds for the entries of the indexes that are open.
    pub(super) fn read_facts(&mut self) {
        for (index, info) in self.indexes.iter_mut().zip(&mut self.infos) {
            if index.read_facts() {
                *info = index.info();
            }
        }
    }

    /// Whether the rows of the entries with `key` are those with that value, each once, without knowing what holds for the
    /// entries of the index: it is on one field of documents, a row has each of its keys once, and the key is no shortened one.
    pub(super) fn key_decides(&self, index: usize, key: &[u8]) -> bool {
        let on_field =
            |index: &Index| matches!(index.def.keys.as_slice(), [only] if only.path.parts().len() == 1);
        let key_sets = |index: &&Index| index.kind == Kind::KeySets && keyset_scan::is_whole(key);
        self.indexes.get(index).filter(key_sets).is_some_and(on_field) && self.snapshot.get().is_mvcc()
    }

    /// The slot that rows are fetched into, for a caller that fetches none from here until [`Reader::ensure_slot`].
    pub(super) fn lend_slot(&mut self) -> Option<Slot> {
        self.spare.take()
    }

    /// Makes sure that there is a slot that rows are fetched into: one that is made while the reader reads would be in memory that is
    /// not kept.
    pub(super) fn ensure_slot(&mut self) {
        let slot = self.spare.take().unwrap_or_else(|| Slot::new(self.table.relation.get()));
        self.spare.set(Some(slot));
    }

    /// Prepares for a plan that was chosen: one that is covered may need no rows.
    pub(super) fn read_for(&mut self, plan: &Plan) {
        if plan.is_covered() {
            self.use_visibility();
        }
    }

    /// Prepares for a query that may need no documents: rows of pages that are visible to everybody are not looked at. Rows of a
    /// table that may lack documents are looked at nevertheless: the map does not tell which do.
    pub(super) fn use_visibility(&mut self) {
        if self.visible.is_none() && !self.table.may_lack_documents() {
            self.visible = VisiblePages::of(&self.table.relation, self.snapshot.get());
        }
    }

    /// Whether the row in a slot has a document.
    pub(super) fn has_document(&self, slot: &Slot) -> bool {
        slot.value(self.table.doc).is_some()
    }

    /// Whether ANALYZE has collected statistics of the documents.
    pub(super) fn has_statistics(&self) -> bool {
        self.statistics.exist(&self.table)
    }

    /// Whether this process returns the row at an address, if the snapshot shows it.
    fn is_own(&self, tid: pg_sys::ItemPointerData) -> bool {
        self.claims.is_none_or(|claims| claims.claim(heap::tid_parts(tid).0))
    }

    /// Puts the version of the row at `tid` that the snapshot shows into `slot`.
    pub(super) fn read(&self, tid: pg_sys::ItemPointerData, slot: &mut Slot) -> bool {
        self.fetch.row(tid, self.snapshot.get(), slot)
    }
}

impl Source for Reader {
    fn indexes(&self) -> &[IndexInfo] {
        &self.infos
    }

    fn fetch(&self, id: RowId, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool> {
        if !self.is_own(address(id)) {
            return Ok(false);
        }
        let mut slot = self.spare.take().unwrap_or_else(|| Slot::new(self.table.relation.get()));
        let mut found = Ok(false);
        if self.read(address(id), &mut slot)
            && let Some(bytes) = document(&slot, &self.table)
        {
            found = visit(bson::document(&bytes)).map(|()| true);
        }
        self.spare.set(Some(slot));
        found
    }

    /// A row that the snapshot shows is the one that the entry was made for, or a later version with the same values: its
    /// address is not reused for another one before the snapshot has ended, and versions that differ in an indexed
    /// column have addresses of their own. Entries have the whole key unless it was too long. A row without a document may
    /// have the entry of a document without an `_id`: [`Source::shows`] and [`Source::fetch`] leave it out.
    fn keys_decide(&self, index: usize) -> bool {
        self.infos.get(index).is_some_and(|info| info.ordered) && self.snapshot.get().is_mvcc()
    }

    /// Entries of the index on `_id` have the value itself. Key sets have keys without type bits: whether keys tell the types of all
    /// values is noted of the index before it gets the first value of which they do not, as is whether rows have several entries.
    fn keys_have_types(&self, index: usize) -> bool {
        let told = |index: &Index| index.kind == Kind::Values || !index.type_bits.is_empty();
        self.indexes.get(index).is_some_and(told)
    }

    fn shows(&self, id: RowId) -> Result<bool> {
        if !self.is_own(address(id)) {
            return Ok(false);
        }
        if self.visible.as_ref().is_some_and(|pages| pages.contains(address(id))) {
            return Ok(true);
        }
        let mut slot = self.spare.take().unwrap_or_else(|| Slot::new(self.table.relation.get()));
        let found = self.read(address(id), &mut slot) && self.has_document(&slot);
        self.spare.set(Some(slot));
        Ok(found)
    }

    fn scan(&self, direction: Direction, after: Option<RowId>, visit: &mut VisitRow<'_>) -> Result<()> {
        let mut slot = Slot::new(self.table.relation.get());
        let (table, snapshot) = (&self.table.relation, self.snapshot.get());
        if let Some(part) = &self.shared {
            let mut scan = part.begun.take().unwrap_or_else(|| TableScan::shared(table, part.scan.clone()));
            let flow = self.scan_rows(&mut scan, Direction::Forward, &mut slot, visit)?;
            if flow.is_break() {
                part.begun.set(Some(scan));
            }
            return Ok(());
        }
        let (mut low, mut high) = (heap::tid(0, 0), heap::tid(u32::MAX, u16::MAX));
        let mut scan = match (direction, after) {
            (Direction::Forward, None) => TableScan::all(table, snapshot),
            _ => {
                match (direction, after) {
                    (Direction::Forward, Some(row)) => low = address(RowId(row.0.saturating_add(1))),
                    (Direction::Backward, Some(row)) => high = address(RowId(row.0.saturating_sub(1))),
                    _ => {}
                }
                TableScan::range(table, snapshot, low, high)
            }
        };
        self.scan_rows(&mut scan, direction, &mut slot, visit).map(drop)
    }

    fn walk(&self, index: usize, probe: Probe<'_>) -> Result<()> {
        let probe = match (probe, &self.search_index) {
            (Probe::Nearest { vector, ef, done, visit, .. }, Some(search)) if index == self.indexes.len() => {
                return search.walk(self, vector, ef, done, visit);
            }
            (probe, _) => probe,
        };
        let (Probe::Range { range, direction, after, visit }, Some(index)) = (probe, self.indexes.get(index))
        else {
            return Err(Probe::refused(index));
        };
        let mut bytes = Vec::new();
        match index.kind {
            Kind::KeySets => self.keyset_scan(index, range, direction, after).entries(&mut |tid, key| {
                check_for_interrupts!();
                visit(row_id(tid), key, &index.type_bits)
            }),
            Kind::Keys | Kind::Values => self.btree_range(index, range, direction, after, &mut |row, key| {
                bytes.clear();
                key.append_to(&mut bytes);
                visit(row, &bytes, key.type_bits().as_slice())
            }),
        }
    }

    fn index_rows(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitRowId<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let index = self.index(index)?;
        match index.kind {
            Kind::KeySets => self.keyset_scan(index, range, direction, after).rows(&mut |tid| {
                check_for_interrupts!();
                visit(row_id(tid))
            }),
            Kind::Keys | Kind::Values => {
                let mut last = None;
                self.btree_range(index, range, direction, after, &mut |row, key| {
                    let flow = visit(row)?;
                    if flow.is_break() {
                        key.append_to(last.insert(Vec::new()));
                    }
                    Ok(flow)
                })?;
                Ok(last)
            }
        }
    }

    fn index_row_batches(&self, number: usize, range: &KeyRange, visit: &mut VisitRowIds<'_>) -> Result<()> {
        let index = self.index(number)?;
        match index.kind {
            Kind::KeySets => self.keyset_scan(index, range, Direction::Forward, None).leaves(visit),
            Kind::Keys | Kind::Values => {
                self.index_rows(number, range, Direction::Forward, None, &mut |row| visit(&[row])).map(drop)
            }
        }
    }

    fn estimated_rows(&self) -> u64 {
        self.table.estimated_rows()
    }

    fn statistics(&self, path: &str) -> Option<PathStatistics> {
        self.statistics.of(&self.table, path)
    }

    fn estimate(&self, index: usize, range: &KeyRange) -> Option<u64> {
        let index = self.indexes.get(index).filter(|index| matches!(index.kind, Kind::KeySets))?;
        Some(keyset_scan::estimate(index.relation.get(), range))
    }
}

/// The callback of a scan of the server's btree: the row of an entry and its key.
type VisitBtreeEntry<'a> = dyn FnMut(RowId, &BtreeEntryKey<'_>) -> Result<Flow> + 'a;

/// The key of an entry of the server's btree, made when it is asked for.
struct BtreeEntryKey<'e> {
    entry: &'e Entry<'e>,
    /// Whether entries have values, and not keys.
    values: bool,
    /// Whether the entry of a row without a document would be as that of a document without the value.
    may_lack_document: bool,
}

impl BtreeEntryKey<'_> {
    /// Appends its bytes. An entry without a value has the key of null.
    fn append_to(&self, out: &mut Vec<u8>) {
        match self.entry.value().map(Datum::bytes) {
            Some(stored) if self.values => value::encode_key(&stored, out),
            Some(stored) => out.extend_from_slice(&stored),
            None => key::encode_value(Value::Null, out),
        }
    }

    /// The type bits of the value, if that is what the entry has.
    fn type_bits(&self) -> Option<u8> {
        if !self.values {
            return None;
        }
        let stored = self.entry.value().map(Datum::bytes);
        Some(match &stored {
            None if self.may_lack_document => FETCH,
            stored => type_bits_of(stored.as_ref().map(|stored| value::decode(stored))),
        })
    }
}

impl Reader {
    /// Shows the documents of a scan.
    fn scan_rows(
        &self,
        scan: &mut TableScan<'_>,
        direction: Direction,
        slot: &mut Slot,
        visit: &mut VisitRow<'_>,
    ) -> Result<Flow> {
        loop {
            check_for_interrupts!();
            if !scan.next(direction, slot) {
                return Ok(Flow::Continue(()));
            }
            if self.is_own(slot.tid())
                && let Some(bytes) = document(slot, &self.table)
                && visit(row_id(slot.tid()), bson::document(&bytes))?.is_break()
            {
                return Ok(Flow::Break(()));
            }
        }
    }

    fn index(&self, number: usize) -> Result<&Index> {
        self.indexes.get(number).ok_or_else(|| Probe::refused(number))
    }

    /// A scan of an index of key sets, of which a serializable transaction has read all then.
    fn keyset_scan<'s>(
        &'s self,
        index: &'s Index,
        range: &'s KeyRange,
        direction: Direction,
        after: Option<(&'s [u8], RowId)>,
    ) -> KeysetScan<'s> {
        let (index, snapshot) = (index.relation.get(), self.snapshot.get());
        snapshot.lock_predicate(*index);
        let after = after.map(|(key, row)| (key, address(row)));
        let table = *self.table.relation.get();
        KeysetScan { index, table, snapshot, range, direction, after, pin: self.visible.is_some() }
    }

    /// The entries of a btree in a range.
    fn btree_range(
        &self,
        index: &Index,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitBtreeEntry<'_>,
    ) -> Result<()> {
        match index.kind {
            Kind::Values => self.values(index, range, direction, after, visit),
            Kind::Keys | Kind::KeySets => self.btree(index, range, direction, after, visit).map(drop),
        }
    }

    /// An index on values. A document without the field has no value there, NULL to the server, and the key of null
    /// to queries: these entries are walked where null is.
    fn values(
        &self,
        index: &Index,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitBtreeEntry<'_>,
    ) -> Result<()> {
        let mut null = Vec::new();
        key::encode_value(Value::Null, &mut null);
        let range = &rest_of(range, direction, after.map(|(key, _)| key));
        if !range.contains(&null) {
            return self.btree(index, range, direction, after, visit).map(drop);
        }
        let below = KeyRange { low: range.low.clone(), high: Some(null.clone()) };
        let from = KeyRange { low: null.clone(), high: range.high.clone() };
        let mut parts = [Some(below), None, Some(from)];
        if direction == Direction::Backward {
            parts.reverse();
        }
        for part in parts {
            let flow = match part {
                Some(part) => self.btree(index, &part, direction, after, visit)?,
                None => self.entries(index, &[BtreeKey::Null], direction, after, visit)?,
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Entries of the server's btree in a range of keys.
    fn btree(
        &self,
        index: &Index,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitBtreeEntry<'_>,
    ) -> Result<Flow> {
        let range = rest_of(range, direction, after.map(|(key, _)| key));
        let (low, high) = (range.low.as_slice(), range.high.as_deref());
        let values = index.kind == Kind::Values;
        let from = if values { BtreeKey::ValueFrom(low) } else { BtreeKey::BytesFrom(low) };
        let below =
            high.map(|high| if values { BtreeKey::ValueBelow(high) } else { BtreeKey::BytesBelow(high) });
        let keys: Vec<BtreeKey<'_>> = [Some(from), below].into_iter().flatten().collect();
        self.entries(index, &keys, direction, after, visit)
    }

    /// Shows the entries that fulfil `keys`.
    fn entries(
        &self,
        index: &Index,
        keys: &[BtreeKey<'_>],
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitBtreeEntry<'_>,
    ) -> Result<Flow> {
        let mut scan = BtreeScan::begin(&self.table.relation, &index.relation, self.snapshot.get(), keys);
        let (values, may_lack_document) = (index.kind == Kind::Values, self.table.may_lack_documents());
        let mut key = Vec::new();
        loop {
            check_for_interrupts!();
            let Some(entry) = scan.next(direction) else { return Ok(Flow::Continue(())) };
            let row = row_id(entry.tid);
            let entry_key = BtreeEntryKey { entry: &entry, values, may_lack_document };
            // Entries of the key at the place to go on from that come before it.
            if let Some((last, last_row)) = after {
                key.clear();
                entry_key.append_to(&mut key);
                let place = (key.as_slice(), row).cmp(&(last, last_row));
                if (direction == Direction::Forward && place.is_le())
                    || (direction == Direction::Backward && place.is_ge())
                {
                    continue;
                }
            }
            if visit(row, &entry_key)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
    }
}

/// The part of `range` that may have entries after those of `key`, which are included.
fn rest_of(range: &KeyRange, direction: Direction, key: Option<&[u8]>) -> KeyRange {
    let mut rest = range.clone();
    match (direction, key) {
        (Direction::Forward, Some(key)) if key > rest.low.as_slice() => rest.low = key.to_vec(),
        (Direction::Backward, Some(key)) => {
            // The least key above this one.
            let above = [key, &[0]].concat();
            if rest.high.as_deref().is_none_or(|high| above.as_slice() < high) {
                rest.high = Some(above);
            }
        }
        _ => {}
    }
    rest
}
