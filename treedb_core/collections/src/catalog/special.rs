//! Collections of a special kind: capped, clustered and of time series, as the options of `create` describe them.
//!
//! * A **capped** collection holds its last documents only: when an edit ends, the oldest rows are deleted until it has at most `max`
//!   documents and `size` bytes of BSON. Row ids grow with each insert, so that their order is the order of insertion. The bytes are counted
//!   in a table of their own, `capped/{id}`: under the empty key, 8 bytes, little endian.
//! * A **clustered** collection is one like any other whose index on `_id` may have another name, and may delete documents that expire.
//! * A **time series** is a collection whose documents have a date in `timeField`. Its documents are rows, not buckets.

use bson::{Bson, Document, RawDocument, RawDocumentBuf};

use treedb_query::access::Change;
use treedb_query::access::{Direction, Flow, RowId, Sink, Source};
use treedb_query::doc::{Doc, OwnedValue, Value};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::Definition;
use treedb_query::index::ordered::{expiry, same_key_pattern};
use treedb_query::query::definition_of;
use treedb_storage::{Reads, Table, TableKind, WriteTxn};

use crate::catalog::meta::Meta;
use crate::read::view::View;
use crate::write::edit::Edit;

/// Sizes are rounded up to a multiple of this.
const GRANULE: i64 = 256;
/// The greatest size.
const MAX_SIZE: i64 = 1 << 50;

/// Name of the table that counts the bytes of the capped collection `id`.
pub(crate) fn capped_table(id: i64) -> String {
    format!("capped/{id}")
}

/// The limits of a capped collection.
#[derive(Debug, Clone)]
pub(crate) struct Capped {
    /// Bytes of its documents.
    pub(crate) size: u64,
    /// Their number; `None` for any.
    pub(crate) max: Option<u64>,
    /// Where its bytes are counted.
    pub(crate) table: Option<Table>,
}

/// The kind of a collection, from its options.
#[derive(Debug, Clone, Default)]
pub(crate) struct Special {
    pub(crate) capped: Option<Capped>,
    /// The field of a time series that has the date.
    pub(crate) time_field: Option<String>,
    pub(crate) clustered: bool,
}

fn invalid(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorCode::InvalidOptions, message)
}

/// A number in the options.
fn integer(options: &Document, name: &str) -> Result<Option<i64>> {
    match options.get(name) {
        None | Some(Bson::Null) => Ok(None),
        Some(Bson::Int32(number)) => Ok(Some(i64::from(*number))),
        Some(Bson::Int64(number)) => Ok(Some(*number)),
        Some(Bson::Double(number)) => Ok(Some(*number as i64)),
        Some(_) => {
            Err(QueryError::new(ErrorCode::TypeMismatch, format!("the option '{name}' must be a number")))
        }
    }
}

impl Special {
    /// True if earlier versions of the program would not treat the collection as its kind demands.
    pub(crate) fn is_any(&self) -> bool {
        self.capped.is_some() || self.time_field.is_some() || self.clustered
    }

    /// Reads stored options.
    ///
    /// # Errors
    /// `TypeMismatch`.
    pub(crate) fn of(options: &Document) -> Result<Self> {
        let capped = match options.get_bool("capped") {
            Ok(true) => Some(Capped {
                size: integer(options, "size")?.unwrap_or(0).max(0).cast_unsigned(),
                max: integer(options, "max")?.and_then(|max| u64::try_from(max).ok()).filter(|max| *max > 0),
                table: None,
            }),
            _ => None,
        };
        let series = options.get_document("timeseries").ok();
        Ok(Special {
            capped,
            time_field: series.and_then(|series| series.get_str("timeField").ok()).map(str::to_owned),
            clustered: options.contains_key("clusteredIndex"),
        })
    }

    /// Checks the options of a new collection, and fills in what they leave open.
    ///
    /// # Errors
    /// `InvalidOptions`, `BadValue` and others, as MongoDB has them.
    pub(crate) fn complete(options: &mut Document) -> Result<Self> {
        complete_capped(options)?;
        complete_series(options)?;
        complete_clustered(options)?;
        let special = Special::of(options)?;
        if let Some(seconds) = options.get("expireAfterSeconds").cloned() {
            if special.time_field.is_none() && !special.clustered {
                return Err(invalid(
                    "'expireAfterSeconds' is only supported on time-series collections or when the 'clusteredIndex' option is specified",
                ));
            }
            let seconds = with_value(&seconds, expiry)?;
            options.insert("expireAfterSeconds", seconds);
        }
        Ok(special)
    }

    /// Refuses a document that a collection of this kind cannot have.
    ///
    /// # Errors
    /// `BadValue`.
    pub(crate) fn check(&self, document: &RawDocument) -> Result<()> {
        if let Some(field) = &self.time_field
            && !matches!(Doc::from(document).get(field), Some(Value::Date(_)))
        {
            return Err(QueryError::bad_value(format!(
                "'{field}' must be present and contain a valid BSON UTC datetime value"
            )));
        }
        if let Some(capped) = &self.capped
            && document.as_bytes().len() as u64 > capped.size
        {
            return Err(QueryError::bad_value("object to insert exceeds cappedMaxSize"));
        }
        Ok(())
    }
}

/// Calls `read` with a value of the options.
fn with_value<T>(value: &Bson, read: impl FnOnce(Value<'_>) -> Result<T>) -> Result<T> {
    let wrapper = bson::RawDocumentBuf::try_from(&bson::doc! { "": value.clone() })?;
    let owned = Doc::from(&wrapper)
        .get("")
        .map_or_else(|| OwnedValue::from_value(Value::Null), OwnedValue::from_value);
    read(owned.value())
}

fn complete_capped(options: &mut Document) -> Result<()> {
    if !options.get_bool("capped").unwrap_or(false) {
        options.remove("capped");
        if options.contains_key("size") || options.contains_key("max") {
            return Err(invalid(
                "the 'capped' field needs to be true when either the 'size' or 'max' fields are present",
            ));
        }
        return Ok(());
    }
    if let Some(other) =
        ["timeseries", "clusteredIndex"].into_iter().find(|other| options.contains_key(*other))
    {
        return Err(invalid(format!("'capped' is not allowed with '{other}'")));
    }
    let Some(size) = integer(options, "size")? else {
        return Err(invalid("the 'size' field is required when 'capped' is true"));
    };
    if !(1..=MAX_SIZE).contains(&size) {
        return Err(QueryError::bad_value(format!(
            "BSON field 'size' value must be >= 1 and <= {MAX_SIZE}, actual value '{size}'"
        )));
    }
    // In the order in which they are listed.
    let max = integer(options, "max")?;
    options.remove("size");
    options.remove("max");
    options.insert("size", number((size + GRANULE - 1) / GRANULE * GRANULE));
    match max {
        Some(max) if max >= i64::from(i32::MAX) => {
            Err(QueryError::bad_value("max in a capped collection has to be < 2^31 or not set"))
        }
        Some(max) if max > 0 => {
            options.insert("max", number(max));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The indexes that a new time series has: one by `metaField` and `timeField`, as in MongoDB, and one that lets its documents expire.
pub(crate) fn indexes_of_series(options: &Document) -> Result<Vec<Definition>> {
    let mut indexes = Vec::new();
    let Ok(series) = options.get_document("timeseries") else { return Ok(indexes) };
    let Ok(time) = series.get_str("timeField") else { return Ok(indexes) };
    if let Ok(meta) = series.get_str("metaField") {
        let mut keys = Document::new();
        keys.insert(meta, 1);
        keys.insert(time, 1);
        indexes.push(definition_of(&RawDocumentBuf::try_from(&bson::doc! { "key": keys })?)?);
    }
    if let Ok(seconds) = options.get_i64("expireAfterSeconds") {
        let mut keys = Document::new();
        keys.insert(time, 1);
        let spec = bson::doc! { "key": keys, "expireAfterSeconds": seconds };
        indexes.push(definition_of(&RawDocumentBuf::try_from(&spec)?)?);
    }
    Ok(indexes)
}

fn number(number: i64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
}

/// The span of the buckets of a granularity, and to what their beginnings are rounded down, in seconds.
fn granularity_seconds(granularity: &str) -> Option<(i32, i32)> {
    match granularity {
        "seconds" => Some((3600, 60)),
        "minutes" => Some((86_400, 3600)),
        "hours" => Some((2_592_000, 86_400)),
        _ => None,
    }
}

/// Refuses `$out` with the options `given` of a time series, unless the collection is one that has them, or there is none. `present` are the
/// options of the collection.
///
/// # Errors
/// Those of options that no time series can have; `7268700` for another collection, and `7406103` for a time series that differs.
pub(crate) fn check_series(present: Option<&Document>, given: &Document) -> Result<()> {
    let none = Document::new();
    let series = present.map(|options| options.get_document("timeseries").ok());
    let is_same = is_same_series(series.flatten().unwrap_or(&none), given)?;
    match series {
        Some(None) => Err(QueryError::new(
            ErrorCode::Location7268700,
            "Cannot create a time-series collection from a non time-series collection or view.",
        )),
        Some(Some(series)) if !is_same => Err(QueryError::new(
            ErrorCode::Location7406103,
            format!(
                "Time-series options inputted must match the existing time-series collection. Received: {given} Found: {series}"
            ),
        )),
        _ => Ok(()),
    }
}

/// Whether the options `given` of a time series mean one that has the options `present`, which are complete.
///
/// # Errors
/// Those of options that no time series can have.
fn is_same_series(present: &Document, given: &Document) -> Result<bool> {
    let mut options = bson::doc! { "timeseries": given.clone() };
    complete_series(&mut options)?;
    let parts = |series: &Document| -> Result<_> {
        let text = |name: &str| series.get_str(name).ok().map(str::to_owned);
        let (granularity, span) = (text("granularity"), integer(series, "bucketMaxSpanSeconds")?);
        let rounding = match granularity.as_deref().and_then(granularity_seconds) {
            Some((_, rounding)) => Some(i64::from(rounding)),
            None => integer(series, "bucketRoundingSeconds")?,
        };
        Ok((text("timeField"), text("metaField"), granularity, span, rounding))
    };
    let given = options.get_document("timeseries").cloned().unwrap_or_default();
    Ok(parts(&given)? == parts(present)?)
}

fn complete_series(options: &mut Document) -> Result<()> {
    let Some(series) = options.get("timeseries") else { return Ok(()) };
    let Some(series) = series.as_document() else {
        return Err(QueryError::new(ErrorCode::TypeMismatch, "the option 'timeseries' must be an object"));
    };
    if let Some(other) = ["clusteredIndex", "validator", "validationLevel", "validationAction"]
        .into_iter()
        .find(|other| options.contains_key(*other))
    {
        return Err(invalid(format!("'timeseries' is not allowed with '{other}'")));
    }
    let mut series = series.clone();
    let text = |name: &str| match series.get(name) {
        None => Ok(None),
        Some(Bson::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(QueryError::new(
            ErrorCode::TypeMismatch,
            format!("BSON field 'timeseries.{name}' is the wrong type, expected type 'string'"),
        )),
    };
    if let Some(other) = series.keys().find(|name| {
        !["timeField", "metaField", "granularity", "bucketMaxSpanSeconds", "bucketRoundingSeconds"]
            .contains(&name.as_str())
    }) {
        return Err(QueryError::new(
            ErrorCode::Location40415,
            format!("BSON field 'timeseries.{other}' is an unknown field."),
        ));
    }
    let Some(time) = text("timeField")? else {
        return Err(QueryError::new(
            ErrorCode::Location40414,
            "BSON field 'timeseries.timeField' is missing but a required field",
        ));
    };
    let meta = text("metaField")?;
    for field in meta.iter().chain([&time]) {
        if field.contains('\0') {
            return Err(QueryError::bad_value(
                "the fields of a time series cannot have null bytes in their names",
            ));
        }
        if field == "_id" || field.is_empty() || field.contains('.') || field.starts_with('$') {
            return Err(invalid(format!("'{field}' cannot be the field of a time series")));
        }
    }
    if meta.as_ref() == Some(&time) {
        return Err(invalid("the time field of a time series cannot be its meta field"));
    }
    let granularity = text("granularity")?;
    let (span, rounding) =
        (integer(&series, "bucketMaxSpanSeconds")?, integer(&series, "bucketRoundingSeconds")?);
    if granularity.is_none() && (span.is_some() || rounding.is_some()) {
        if span != rounding || span.is_some_and(|span| !(1..=31_536_000).contains(&span)) {
            return Err(invalid(
                "'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' must both be given, with the same value of 1 to 31536000",
            ));
        }
    } else {
        let granularity = granularity.unwrap_or_else(|| "seconds".to_owned());
        let Some((its_span, its_rounding)) = granularity_seconds(&granularity) else {
            return Err(QueryError::bad_value(format!(
                "Enumeration value '{granularity}' for field 'timeseries.granularity' is not a valid value."
            )));
        };
        // What is listed, and in an oplog, has both. As in MongoDB, they may not contradict each other.
        for (name, given, its) in
            [("bucketMaxSpanSeconds", span, its_span), ("bucketRoundingSeconds", rounding, its_rounding)]
        {
            if given.is_some_and(|given| given != i64::from(its)) {
                return Err(invalid(format!(
                    "Timeseries '{name}' is not configurable to a value other than the default of {its} for the provided granularity"
                )));
            }
        }
        series.remove("bucketRoundingSeconds");
        series.insert("granularity", granularity);
        series.insert("bucketMaxSpanSeconds", its_span);
    }
    options.insert("timeseries", series);
    Ok(())
}

/// The options of a time series with another span of its buckets, which is not shorter than it was.
///
/// # Errors
/// `InvalidOptions`, also for options that are not those of a time series.
pub(crate) fn change_span(options: &Document, changes: &Document) -> Result<Document> {
    let Ok(series) = options.get_document("timeseries") else {
        return Err(invalid("option only supported on a time-series collection: timeseries"));
    };
    let mut changed = series.clone();
    for name in ["granularity", "bucketMaxSpanSeconds", "bucketRoundingSeconds"] {
        changed.remove(name);
    }
    // What the granularity means, told in seconds, is no change.
    let (span, rounding) =
        (integer(changes, "bucketMaxSpanSeconds")?, integer(changes, "bucketRoundingSeconds")?);
    if !changes.contains_key("granularity")
        && let Some((its_span, its_rounding)) =
            series.get_str("granularity").ok().and_then(granularity_seconds)
        && (span, rounding) == (Some(i64::from(its_span)), Some(i64::from(its_rounding)))
    {
        return Ok(options.clone());
    }
    changed.extend(changes.clone());
    let mut options = options.clone();
    options.insert("timeseries", changed);
    complete_series(&mut options)?;
    let span = |options: &Document| -> Result<i64> {
        let series = options.get_document("timeseries").ok();
        let span = series.map(|series| integer(series, "bucketMaxSpanSeconds")).transpose()?;
        Ok(span.flatten().unwrap_or_default())
    };
    if changes.is_empty() || span(&options)? < integer(series, "bucketMaxSpanSeconds")?.unwrap_or_default() {
        return Err(invalid(
            "Invalid transition for timeseries: the span of its buckets can only be increased",
        ));
    }
    Ok(options)
}

fn complete_clustered(options: &mut Document) -> Result<()> {
    let Some(index) = options.get("clusteredIndex") else { return Ok(()) };
    let Some(index) = index.as_document() else {
        return Err(QueryError::new(
            ErrorCode::TypeMismatch,
            "the option 'clusteredIndex' must be an object",
        ));
    };
    if let Some(other) = index.keys().find(|name| !["v", "key", "name", "unique"].contains(&name.as_str())) {
        return Err(QueryError::new(
            ErrorCode::Location40415,
            format!("BSON field 'create.clusteredIndex.{other}' is an unknown field."),
        ));
    }
    let key = index.get_document("key").ok().map(RawDocumentBuf::try_from).transpose()?;
    if !key.is_some_and(|key| same_key_pattern(&key, &bson::rawdoc! { "_id": 1 })) {
        return Err(QueryError::new(
            ErrorCode::InvalidIndexSpecificationOption,
            "The clusteredIndex option is only supported with the key {_id: 1}",
        ));
    }
    if !index.get_bool("unique").unwrap_or(false) {
        return Err(QueryError::bad_value("The clusteredIndex option requires unique: true to be specified"));
    }
    let name = index.get_str("name").unwrap_or("_id_").to_owned();
    options
        .insert("clusteredIndex", bson::doc! { "v": 2, "key": { "_id": 1 }, "name": name, "unique": true });
    Ok(())
}

/// The bytes of the documents of a capped collection.
fn bytes(reads: &impl Reads, table: &Table) -> Result<u64> {
    let counted: Option<[u8; 8]> = reads.get(table, b"")?.and_then(|bytes| bytes.try_into().ok());
    Ok(counted.map(u64::from_le_bytes).unwrap_or(0))
}

impl Edit<'_> {
    /// Counts bytes that were added to the documents of a capped collection.
    pub(crate) fn count_bytes(&mut self, old: usize, new: usize) {
        self.grown += new as i64 - old as i64;
        self.changed = true;
    }

    /// Deletes the oldest documents of a capped collection that has grown too large.
    pub(crate) fn enforce_cap(&mut self) -> Result<()> {
        if std::mem::take(&mut self.changed) { self.delete_oldest() } else { Ok(()) }
    }

    /// Deletes the oldest documents until the collection is within its limits, and stores how many bytes it has.
    fn delete_oldest(&mut self) -> Result<()> {
        let Some(Capped { size, max, table: Some(table) }) = self.meta.special.capped.clone() else {
            return Ok(());
        };
        let mut held = bytes(&*self.txn, &table)?.saturating_add_signed(std::mem::take(&mut self.grown));
        let mut rows = self.txn.len(&self.meta.rows)?;
        while rows > 1 && (held > size || max.is_some_and(|max| rows > max)) {
            let Some(oldest) = first_row(&self.view())? else { break };
            self.modify(oldest, &mut |_| Ok(Change::Delete))?;
            held = held.saturating_add_signed(std::mem::take(&mut self.grown));
            rows -= 1;
        }
        Ok(self.txn.put(&table, b"", &held.to_le_bytes())?)
    }
}

/// The oldest row of a collection.
pub(crate) fn first_row(view: &View<'_, impl Reads>) -> Result<Option<RowId>> {
    let mut first = None;
    view.scan_rows(Direction::Forward, None, &mut |row, _| {
        first = Some(row);
        Ok(Flow::Break(()))
    })?;
    Ok(first)
}

/// Creates the table that counts the bytes of a capped collection.
pub(crate) fn create_capped_table(txn: &mut WriteTxn, id: i64) -> Result<Table> {
    Ok(txn.create_table(&capped_table(id), TableKind::Ordered)?)
}

/// Makes a collection capped, or changes its limits: counts its bytes, and deletes the documents that are too many.
pub(crate) fn make_capped(edit: &mut Edit<'_>, limits: &Document) -> Result<()> {
    let was = edit.meta.special.capped.clone();
    let mut options = edit.meta.options.clone();
    options.insert("capped", true);
    options.extend(limits.clone());
    if limits.contains_key("capped") && !limits.contains_key("max") {
        options.remove("max");
    }
    let mut special = Special::complete(&mut options)?;
    let table = match was.and_then(|was| was.table) {
        Some(table) => table,
        None => {
            let mut held = 0;
            edit.view().scan(Direction::Forward, None, &mut |_, document| {
                held += document.as_bytes().len() as u64;
                Ok(Flow::Continue(()))
            })?;
            let table = create_capped_table(edit.txn, edit.meta.id)?;
            edit.txn.put(&table, b"", &held.to_le_bytes())?;
            table
        }
    };
    if let Some(capped) = &mut special.capped {
        capped.table = Some(table.clone());
    }
    let meta: &mut Meta = std::sync::Arc::make_mut(&mut edit.meta);
    (meta.options, meta.special) = (options, special);
    edit.catalog.write(edit.txn, meta)?;
    edit.delete_oldest()
}
