//! Sizes of a collection: what it holds, and what that takes on disk.

use bson::raw::cstr;
use bson::{RawDocumentBuf, rawdoc};

use treedb_query::error::Result;
use treedb_query::query::interrupt::InterruptTick;
use treedb_storage::{ReadTxn, Reads, Table, TableStats};

use crate::catalog::meta::Meta;

/// Collections with at most as many documents are read in full; of larger ones a sample is.
const READ_IN_FULL: u64 = 5_000;
/// Places from which a sample is taken, evenly spread over the row ids.
const PLACES: u64 = 100;
/// Rows read at each of them.
const ROWS_AT_A_PLACE: usize = 50;
/// Values of an index that are read to learn how long its large ones are.
const INDEX_SAMPLE: usize = 1_000;

/// Sizes of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionStats {
    /// The number of documents.
    pub documents: u64,
    /// Bytes of the documents as BSON. An estimate if `estimated`.
    pub data_bytes: u64,
    /// Bytes on disk: pages, and values that are too long for pages. The pages are counted.
    pub storage_bytes: u64,
    /// Only some of the documents have been read: `data_bytes` and the long values are estimated.
    pub estimated: bool,
    /// Within which limits the oldest documents are deleted to make room; `None` if they are not.
    pub capped: Option<CappedLimits>,
    /// Each index.
    pub indexes: Vec<IndexSize>,
}

/// How much a capped collection holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CappedLimits {
    /// Bytes of its documents.
    pub size: u64,
    /// Their number; `None` for any.
    pub max: Option<u64>,
}

/// The size of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexSize {
    /// Its name.
    pub name: String,
    /// Its entries.
    pub entries: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// It is being built.
    pub building: bool,
}

/// Lengths of some rows.
#[derive(Default)]
struct Lengths {
    rows: u64,
    /// Of the documents.
    documents: u64,
    large_rows: u64,
    /// Of the rows that are in the value log, as they are stored.
    large: u64,
}

/// The number and the bytes of all documents, which are read.
///
/// # Errors
/// Those of damaged rows; `Interrupted`.
pub(crate) fn data_size(reads: &ReadTxn, meta: &Meta) -> Result<(u64, u64)> {
    let mut lengths = Lengths::default();
    lengths.read(reads, meta, 0, usize::MAX)?;
    Ok((lengths.rows, lengths.documents))
}

/// Bytes on disk of a collection and its indexes. Documents are only read if some are too long for pages.
///
/// # Errors
/// Those of damaged pages and rows; `Interrupted`.
pub(crate) fn disk_size(reads: &ReadTxn, meta: &Meta) -> Result<u64> {
    if reads.table_stats(&meta.rows)?.large_values > 0 {
        let stats = of(reads, meta)?;
        return Ok(stats.storage_bytes + stats.index_bytes());
    }
    let mut bytes = reads.table_stats(&meta.rows)?.page_bytes();
    for index in &meta.indexes {
        let stats = reads.table_stats(&index.table)?;
        bytes += stats.page_bytes() + large_bytes(reads, &index.table, &stats)?;
    }
    Ok(bytes)
}

/// Sizes of a collection in a snapshot.
///
/// # Errors
/// Those of damaged pages and rows; `Interrupted`.
pub(crate) fn of(reads: &ReadTxn, meta: &Meta) -> Result<CollectionStats> {
    let rows = reads.table_stats(&meta.rows)?;
    let mut lengths = Lengths::default();
    let estimated = rows.entries > READ_IN_FULL;
    if estimated {
        let mut all = reads.rows(&meta.rows, 0)?;
        let first = all.lend_next()?.map_or(0, |(id, _)| id);
        let last = all.lend_next_back()?.map_or(first, |(id, _)| id);
        let step = (last.saturating_sub(first) / PLACES).max(1);
        for place in 0..PLACES {
            lengths.read(reads, meta, first.saturating_add(place * step), ROWS_AT_A_PLACE)?;
        }
    } else {
        lengths.read(reads, meta, 0, usize::MAX)?;
    }
    let data_bytes = scaled(lengths.documents, lengths.rows, rows.entries);
    let storage_bytes = rows.page_bytes() + scaled(lengths.large, lengths.large_rows, rows.large_values);
    let index = |index: &crate::catalog::meta::IndexMeta| -> Result<IndexSize> {
        let stats = reads.table_stats(&index.table)?;
        Ok(IndexSize {
            name: index.def.name().to_owned(),
            entries: stats.entries,
            bytes: stats.page_bytes() + large_bytes(reads, &index.table, &stats)?,
            building: index.building.is_some(),
        })
    };
    let indexes = meta.indexes.iter().map(index).collect::<Result<_>>()?;
    let capped = meta.special.capped.as_ref();
    let capped = capped.map(|capped| CappedLimits { size: capped.size, max: capped.max });
    Ok(CollectionStats { documents: rows.entries, data_bytes, storage_bytes, estimated, capped, indexes })
}

/// What `all` take if `some` take `bytes`.
fn scaled(bytes: u64, some: u64, all: u64) -> u64 {
    match some {
        0 => 0,
        some if some == all => bytes,
        some => (bytes as f64 / some as f64 * all as f64) as u64,
    }
}

/// Bytes of the values of an index that are in the value log.
fn large_bytes(reads: &ReadTxn, table: &Table, stats: &TableStats) -> Result<u64> {
    let (mut bytes, mut count) = (0, 0);
    if stats.large_values > 0 {
        for entry in
            reads.range(table, (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded))?.take(INDEX_SAMPLE)
        {
            let (_, value) = entry?;
            if TableStats::is_large(value.len()) {
                (bytes, count) = (bytes + value.len() as u64, count + 1);
            }
        }
    }
    Ok(scaled(bytes, count, stats.large_values))
}

impl Lengths {
    /// Adds those of `limit` rows from the id `from` on.
    fn read(&mut self, reads: &ReadTxn, meta: &Meta, from: u64, limit: usize) -> Result<()> {
        let mut rows = reads.rows(&meta.rows, from)?;
        let mut interrupt = InterruptTick::default();
        for _ in 0..limit {
            let Some((_, row)) = rows.lend_next()? else { break };
            interrupt.tick()?;
            self.rows += 1;
            self.documents += meta.decode_row(row)?.as_bytes().len() as u64;
            if TableStats::is_large(row.len()) {
                self.large_rows += 1;
                self.large += row.len() as u64;
            }
        }
        Ok(())
    }
}

impl CollectionStats {
    /// Bytes of all indexes.
    pub fn index_bytes(&self) -> u64 {
        self.indexes.iter().map(|index| index.bytes).sum()
    }

    /// What the command `collStats` and the `storageStats` of the stage `$collStats` show, with sizes divided by `scale`.
    ///
    /// # Errors
    /// The name of an index that BSON cannot have.
    pub fn storage_document(&self, scale: f64) -> Result<RawDocumentBuf> {
        let size = |bytes: u64| (bytes as f64 / scale) as i64;
        let mut index_sizes = RawDocumentBuf::new();
        let mut builds: Vec<&str> = Vec::new();
        let mut by_name: Vec<(&str, u64)> = Vec::new();
        for IndexSize { name, bytes, building: is_building, .. } in &self.indexes {
            // One that is built to take the place of another takes room as well, and so does each field of a search index.
            match by_name.iter_mut().find(|(other, _)| other == name) {
                Some((_, sum)) => *sum += bytes,
                None => by_name.push((name, *bytes)),
            }
            if *is_building && !builds.contains(&name.as_str()) {
                builds.push(name);
            }
        }
        let mut building = bson::RawArrayBuf::new();
        builds.iter().for_each(|name| building.push(*name));
        for (name, bytes) in &by_name {
            index_sizes.append(bson::raw::CString::try_from(*name)?, size(*bytes));
        }
        let mut document = rawdoc! {
            "size": size(self.data_bytes),
            "count": i64::try_from(self.documents).unwrap_or(i64::MAX),
        };
        if let Some(average) = self.data_bytes.checked_div(self.documents) {
            document.append(cstr!("avgObjSize"), average as i64);
        }
        let mut more = rawdoc! {
            "numOrphanDocs": 0,
            "storageSize": size(self.storage_bytes),
            // Free pages belong to no collection.
            "freeStorageSize": 0_i64,
            "capped": self.capped.is_some(),
        };
        if let Some(CappedLimits { size: bytes, max }) = self.capped {
            more.append(cstr!("max"), max.map_or(0, |max| i64::try_from(max).unwrap_or(i64::MAX)));
            more.append(cstr!("maxSize"), size(bytes));
        }
        let rest = rawdoc! {
            "nindexes": i32::try_from(by_name.len()).unwrap_or(i32::MAX),
            "indexBuilds": building,
            "totalIndexSize": size(self.index_bytes()),
            "totalSize": size(self.storage_bytes + self.index_bytes()),
            "indexSizes": index_sizes,
            "scaleFactor": scale as i64,
            "sizeIsEstimated": self.estimated,
        };
        for field in more.iter().chain(&rest) {
            let (name, value) = field?;
            document.append(name, value);
        }
        Ok(document)
    }
}
