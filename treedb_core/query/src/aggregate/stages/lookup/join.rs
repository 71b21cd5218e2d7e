//! Documents of another collection by the values of one of their fields: what `$lookup` and `$graphLookup` ask for, once
//! for each document of their input.
//!
//! With an index on the field each request is a point look-up, or a query if the index cannot answer it. Without an index
//! the first requests are queries; then the collection is read once into a hash table, if it fits in the memory of a
//! stage. With an index the same is done after as many requests as the collection has documents.

use std::collections::HashMap;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Collation, Doc, Fields, OwnedValue, Path, Value};
use crate::error::Result;
use crate::query::{Filter, Query};

use crate::aggregate::collections::EqualityLookup;
use crate::aggregate::context::Context;

/// Queries without an index before a hash table is made, which does not pay off for one or two.
const MAX_QUERIES: u32 = 2;

/// Look-ups in an index before a hash table is made, however small the collection is.
const MIN_LOOKUPS: u64 = 16;

/// Bytes that an entry of the hash table takes besides its key and document.
const ENTRY_OVERHEAD: usize = 64;

/// The values of one request.
pub(super) struct JoinValues(ArrayWriter);

impl JoinValues {
    pub(super) fn new() -> Self {
        JoinValues(ArrayWriter::new())
    }

    pub(super) fn push(&mut self, value: Value<'_>) {
        self.0.push(value);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// The values as a BSON array.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }

    /// The value, if there is exactly one.
    fn single(&self) -> Option<OwnedValue> {
        let mut single = None;
        if self.0.len() == 1 {
            let bytes = self.0.clone().into_bytes();
            single = Doc::new(&bytes).elements().next().map(|element| OwnedValue::from_element(&element));
        }
        single
    }
}

/// The field of the other collection, and how its documents are found.
pub(super) struct Join {
    namespace: String,
    path: Path,
    collation: Collation,
    strategy: Strategy,
}

enum Strategy {
    /// Not yet chosen; with the number of queries so far.
    Undecided(u32),
    /// By queries.
    Query,
    /// By an index; with the number of look-ups after which a hash table is made.
    Index(Box<dyn EqualityLookup>, u64),
    HashTable(HashTable),
}

/// The answer to a request.
pub(super) enum Matches {
    /// The documents, in the order of the collection.
    Documents(Vec<RawDocumentBuf>),
    /// A filter that finds them.
    Filter(RawDocumentBuf),
}

/// The documents of a collection, and the numbers of those with each value of the field.
struct HashTable {
    documents: Vec<RawDocumentBuf>,
    numbers: HashMap<Box<[u8]>, Vec<usize>>,
}

impl Join {
    /// By the field at `path` of the collection `namespace`; strings compare as `collation` says.
    pub(super) fn new(namespace: String, path: &str, collation: &Collation) -> Self {
        let collation = collation.clone();
        Join { namespace, path: Path::new(path), collation, strategy: Strategy::Undecided(0) }
    }

    /// Calls `visit` with each document in which a value of the field is one of `values`. If `fields` is given, the documents
    /// may lack other fields. Returns the values, without a call, if it takes a query: see [`Self::find`].
    pub(super) fn for_each_match(
        &mut self,
        values: JoinValues,
        fields: Option<&Fields>,
        context: &Context,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<Option<JoinValues>> {
        if let Some(only) = values.single()
            && let Some(only) = only.element()
            && self.for_each_equal(only.value(), fields, context, visit)?
        {
            return Ok(None);
        }
        match &self.strategy {
            Strategy::HashTable(table) => {
                let values = values.0.into_bytes();
                table.find(Doc::new(&values), &self.collation).try_for_each(|document| visit(document))?;
                Ok(None)
            }
            _ => Ok(Some(values)),
        }
    }

    /// True if a value is looked up in an index or a hash table, without a query.
    pub(super) fn has_point_lookup(&mut self, context: &Context) -> Result<bool> {
        if let Strategy::Undecided(0) = self.strategy
            && self.collation.is_simple()
            && let Some(index) = context.collections.point_lookup(&self.namespace, &self.path)?
        {
            let rows = context.collections.count(&self.namespace, Query::new(Filter::all()))?;
            self.strategy = Strategy::Index(index, rows.max(MIN_LOOKUPS));
        }
        Ok(matches!(self.strategy, Strategy::Index(..) | Strategy::HashTable(_)))
    }

    /// [`Self::for_each_match`] of one value; false, without a call, if it takes a query.
    pub(super) fn for_each_equal(
        &mut self,
        value: Value<'_>,
        fields: Option<&Fields>,
        context: &Context,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<bool> {
        self.has_point_lookup(context)?;
        if let Strategy::Index(_, left) = &mut self.strategy
            && *left > 0
        {
            *left -= 1;
            if *left == 0
                && let Some(table) = HashTable::read(&self.namespace, &self.path, &self.collation, context)?
            {
                self.strategy = Strategy::HashTable(table);
            }
        }
        match &mut self.strategy {
            Strategy::Index(index, _) => index.find(value, fields, visit),
            Strategy::HashTable(table) => {
                table.find_equal(value, &self.collation).try_for_each(|document| visit(document))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The documents in which a value of the field is one of `values`.
    pub(super) fn find(&mut self, values: JoinValues, context: &Context) -> Result<Matches> {
        let values = values.0.into_bytes();
        let values = Doc::new(&values);
        if let Strategy::Undecided(queries) = &mut self.strategy {
            *queries += 1;
            if *queries > MAX_QUERIES {
                let query = Query::new(Filter::parse(&one_of(&self.path, values))?);
                let query = query.collated(&self.collation)?;
                self.strategy = match context.collections.uses_index(&self.namespace, &query)? {
                    true => Strategy::Query,
                    false => match HashTable::read(&self.namespace, &self.path, &self.collation, context)? {
                        Some(table) => Strategy::HashTable(table),
                        None => Strategy::Query,
                    },
                };
            }
        }
        Ok(match &self.strategy {
            Strategy::HashTable(table) => {
                Matches::Documents(table.find(values, &self.collation).cloned().collect())
            }
            _ => Matches::Filter(one_of(&self.path, values)),
        })
    }
}

impl HashTable {
    /// Reads the collection; `None` if it does not fit in memory.
    fn read(
        namespace: &str,
        path: &Path,
        collation: &Collation,
        context: &Context,
    ) -> Result<Option<HashTable>> {
        let (mut documents, mut numbers) = (Vec::new(), HashMap::<Box<[u8]>, Vec<usize>>::new());
        let (mut bytes, mut key) = (0, Vec::new());
        let mut all = context.collections.find(namespace, Query::new(Filter::all()))?;
        all.for_each(&mut |document| {
            bytes += document.as_bytes().len() + ENTRY_OVERHEAD;
            let at = documents.len();
            // The values that a filter compares: an array and its elements; null for a missing field.
            path.visit(Doc::from(document), true, &mut |found| {
                key.clear();
                collation.encode(found.unwrap_or(Value::Null), &mut key);
                bytes += key.len() + ENTRY_OVERHEAD;
                let of_value = numbers.entry(key.as_slice().into()).or_default();
                if of_value.last() != Some(&at) {
                    of_value.push(at);
                }
                false
            });
            documents.push(document.to_owned());
            Ok(if bytes > context.memory_limit { Flow::Break(()) } else { Flow::Continue(()) })
        })?;
        Ok((bytes <= context.memory_limit).then_some(HashTable { documents, numbers }))
    }

    fn find_equal(&self, value: Value<'_>, collation: &Collation) -> impl Iterator<Item = &RawDocumentBuf> {
        let mut key = Vec::new();
        collation.encode(value, &mut key);
        let numbers = self.numbers.get(key.as_slice()).into_iter().flatten();
        numbers.filter_map(|at| self.documents.get(*at))
    }

    fn find(&self, values: Doc<'_>, collation: &Collation) -> impl Iterator<Item = &RawDocumentBuf> {
        let (mut found, mut key) = (Vec::<usize>::new(), Vec::new());
        for value in values.elements() {
            key.clear();
            collation.encode(value.value(), &mut key);
            found.extend(self.numbers.get(key.as_slice()).into_iter().flatten());
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().filter_map(|at| self.documents.get(at))
    }
}

/// A filter for the documents in which a value at `path` is one of `values`.
fn one_of(path: &Path, values: Doc<'_>) -> RawDocumentBuf {
    let path = path.as_str().as_bytes();
    let under = |operator: &[u8], operand: Value<'_>| {
        let mut out = Writer::new(64);
        let open = out.open_document(path);
        out.value(operator, operand);
        out.close(open);
        out.finish()
    };
    let special = |value: &Value<'_>| matches!(value, Value::Regex(..) | Value::Undefined);
    let all = || values.elements().map(|element| element.value());
    if !all().any(|value| special(&value)) {
        return under(b"$in", Value::Array(values));
    }
    // In `$in` a regular expression would be a pattern, and undefined is refused; here they are compared as values.
    let mut plain = ArrayWriter::new();
    let mut either = bson::RawArrayBuf::new();
    for value in all() {
        match value {
            Value::Regex(..) => either.push(under(b"$eq", value)),
            Value::Undefined => either.push(under(b"$type", Value::String(value.type_name().as_bytes()))),
            value => plain.push(value),
        }
    }
    either.push(under(b"$in", Value::Array(Doc::new(&plain.into_bytes()))));
    rawdoc! { "$or": either }
}
