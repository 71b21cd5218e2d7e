//! Documents of another collection by the values of one of their fields: what `$lookup` and `$graphLookup` ask for
//! again and again.
//!
//! With an index on the field each question is a look-up of its own, or a search where that is not all it takes. Without
//! one, the first few questions are searches; then the collection is read once into a table by value, as long as it takes
//! no more than the memory of a stage. So it is with an index when there have been as many questions as documents.

use std::collections::HashMap;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Collation, Doc, Fields, OwnedValue, Path, Value};
use crate::error::Result;
use crate::query::{Filter, Query};

use super::world::{Context, Equal};

/// Searches without an index before a table is made: for one or two it does not pay.
const SEARCHES: u32 = 2;

/// Questions by an index before a table is made, however small the collection.
const FEW: u64 = 16;

/// Bytes an entry takes besides its key and document.
const ENTRY: usize = 64;

/// The values one document asks for.
pub(super) struct Values(ArrayWriter);

impl Values {
    pub(super) fn new() -> Self {
        Values(ArrayWriter::new())
    }

    pub(super) fn push(&mut self, value: Value<'_>) {
        self.0.push(value);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// The values as a document of elements without meaning in their names.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }

    /// The value, if it is one.
    fn only(&self) -> Option<OwnedValue> {
        let mut only = None;
        if self.0.len() == 1 {
            let bytes = self.0.clone().into_bytes();
            only = Doc::new(&bytes).elements().next().map(|element| OwnedValue::from_element(&element));
        }
        only
    }
}

/// The field of the other collection, and how its documents are found.
pub(super) struct Join {
    namespace: String,
    path: Path,
    collation: Collation,
    how: How,
}

enum How {
    /// So many were searched for.
    Undecided(u32),
    Search,
    /// By an index; a table would pay after so many more questions.
    Index(Box<dyn Equal>, u64),
    Table(Table),
}

/// What a question leads to.
pub(super) enum Joined {
    /// The documents, in the order of the collection.
    Documents(Vec<RawDocumentBuf>),
    /// A filter to search by.
    Filter(RawDocumentBuf),
}

/// The documents of a collection, and where each value of the field is.
struct Table {
    documents: Vec<RawDocumentBuf>,
    places: HashMap<Box<[u8]>, Vec<usize>>,
}

impl Join {
    /// By the field at `path` of the collection `namespace`; texts are equal as `collation` says.
    pub(super) fn new(namespace: String, path: &str, collation: &Collation) -> Self {
        let collation = collation.clone();
        Join { namespace, path: Path::new(path), collation, how: How::Undecided(0) }
    }

    /// Lends the documents in which a value of the field is one of `values` to `visit`; of `fields`, if they are given, at
    /// least those. Gives the values back, without a call, if that takes a search.
    pub(super) fn lend(
        &mut self,
        values: Values,
        fields: Option<&Fields>,
        context: &Context,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<Option<Values>> {
        if let Some(only) = values.only()
            && let Some(only) = only.element()
            && self.lend_one(only.value(), fields, context, visit)?
        {
            return Ok(None);
        }
        match &self.how {
            How::Table(table) => {
                let values = values.0.into_bytes();
                table.find(Doc::new(&values), &self.collation).try_for_each(|document| visit(document))?;
                Ok(None)
            }
            _ => Ok(Some(values)),
        }
    }

    /// True if there is a way from a value straight to its documents.
    pub(super) fn is_by_value(&mut self, context: &Context) -> Result<bool> {
        if let How::Undecided(0) = self.how
            && self.collation.is_simple()
            && let Some(index) = context.world.equal(&self.namespace, &self.path)?
        {
            let rows = context.world.count(&self.namespace, Query::new(Filter::all()))?;
            self.how = How::Index(index, rows.max(FEW));
        }
        Ok(matches!(self.how, How::Index(..) | How::Table(_)))
    }

    /// The same of one value; false, without a call, if that takes a search.
    pub(super) fn lend_one(
        &mut self,
        value: Value<'_>,
        fields: Option<&Fields>,
        context: &Context,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<bool> {
        self.is_by_value(context)?;
        if let How::Index(_, left) = &mut self.how
            && *left > 0
        {
            *left -= 1;
            if *left == 0
                && let Some(table) = Table::read(&self.namespace, &self.path, &self.collation, context)?
            {
                self.how = How::Table(table);
            }
        }
        match &mut self.how {
            How::Index(index, _) => index.find(value, fields, visit),
            How::Table(table) => {
                table.find_one(value, &self.collation).try_for_each(|document| visit(document))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The documents in which a value of the field is one of `values`.
    pub(super) fn find(&mut self, values: Values, context: &Context) -> Result<Joined> {
        let values = values.0.into_bytes();
        let values = Doc::new(&values);
        if let How::Undecided(searched) = &mut self.how {
            *searched += 1;
            if *searched > SEARCHES {
                let query = Query::new(Filter::parse(&one_of(&self.path, values))?);
                let query = query.collated(&self.collation)?;
                self.how = match context.world.searches(&self.namespace, &query)? {
                    true => How::Search,
                    false => match Table::read(&self.namespace, &self.path, &self.collation, context)? {
                        Some(table) => How::Table(table),
                        None => How::Search,
                    },
                };
            }
        }
        Ok(match &self.how {
            How::Table(table) => Joined::Documents(table.find(values, &self.collation).cloned().collect()),
            _ => Joined::Filter(one_of(&self.path, values)),
        })
    }
}

impl Table {
    /// Reads a collection; `None` if it does not fit in the memory.
    fn read(namespace: &str, path: &Path, collation: &Collation, context: &Context) -> Result<Option<Table>> {
        let (mut documents, mut places) = (Vec::new(), HashMap::<Box<[u8]>, Vec<usize>>::new());
        let (mut bytes, mut key) = (0, Vec::new());
        let mut all = context.world.find(namespace, Query::new(Filter::all()))?;
        all.each(&mut |document| {
            bytes += document.as_bytes().len() + ENTRY;
            let at = documents.len();
            // As a filter sees it: an array is its elements and itself, nothing is null.
            path.visit(Doc::from(document), true, &mut |found| {
                key.clear();
                collation.encode(found.unwrap_or(Value::Null), &mut key);
                bytes += key.len() + ENTRY;
                let at_value = places.entry(key.as_slice().into()).or_default();
                if at_value.last() != Some(&at) {
                    at_value.push(at);
                }
                false
            });
            documents.push(document.to_owned());
            Ok(if bytes > context.memory { Flow::Break(()) } else { Flow::Continue(()) })
        })?;
        Ok((bytes <= context.memory).then_some(Table { documents, places }))
    }

    fn find_one(&self, value: Value<'_>, collation: &Collation) -> impl Iterator<Item = &RawDocumentBuf> {
        let mut key = Vec::new();
        collation.encode(value, &mut key);
        let places = self.places.get(key.as_slice()).into_iter().flatten();
        places.filter_map(|at| self.documents.get(*at))
    }

    fn find(&self, values: Doc<'_>, collation: &Collation) -> impl Iterator<Item = &RawDocumentBuf> {
        let (mut found, mut key) = (Vec::<usize>::new(), Vec::new());
        for value in values.elements() {
            key.clear();
            collation.encode(value.value(), &mut key);
            found.extend(self.places.get(key.as_slice()).into_iter().flatten());
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().filter_map(|at| self.documents.get(at))
    }
}

/// The filter of the documents in which a value at `path` is one of `values`.
fn one_of(path: &Path, values: Doc<'_>) -> RawDocumentBuf {
    let path = path.as_str().as_bytes();
    let under = |operator: &[u8], operand: Value<'_>| {
        let mut out = Writer::new(64);
        let open = out.open_document(path);
        out.value(operator, operand);
        out.close(open);
        out.finish()
    };
    let pattern = |value: &Value<'_>| matches!(value, Value::Regex(..));
    let all = || values.elements().map(|element| element.value());
    if !all().any(|value| pattern(&value)) {
        return under(b"$in", Value::Array(values));
    }
    // In a list a regular expression would be matched, here it is a value like others.
    let mut plain = ArrayWriter::new();
    let mut either = bson::RawArrayBuf::new();
    for value in all() {
        if pattern(&value) {
            either.push(under(b"$eq", value));
        } else {
            plain.push(value);
        }
    }
    either.push(under(b"$in", Value::Array(Doc::new(&plain.into_bytes()))));
    rawdoc! { "$or": either }
}
