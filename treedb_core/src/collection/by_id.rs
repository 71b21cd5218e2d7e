//! The commonest of all finds, `{_id: value}`: one look-up in the `_id` index and one of the row, without planning.

use std::borrow::Cow;
use std::sync::OnceLock;

use bson::{RawDocument, RawDocumentBuf};

use crate::access::{KeyRange, Way};
use crate::code::Result;
use crate::doc::key::encode_value;
use crate::doc::{Doc, MESSAGE, Value, validate_with};
use crate::kv::{MAX_KEY, Reads};
use crate::query::{Counters, OnKeys, Path, Plan, Projection, project};

use super::meta::Meta;
use super::request::FindRequest;
use super::view::{View, split_entry};

/// A find that asks for one `_id` and nothing else.
#[derive(Debug)]
pub(super) struct ById {
    /// The value's key in the `_id` index.
    key: Vec<u8>,
    projection: Option<Projection>,
    found: bool,
    /// Made when somebody asks.
    plan: OnceLock<Plan>,
}

impl ById {
    /// `request` as such a find, if it is one.
    ///
    /// # Errors
    /// Those of a filter that is no valid BSON, and of the projection.
    pub(super) fn new(request: &FindRequest) -> Result<Option<ById>> {
        let FindRequest {
            filter: Some(filter),
            sort: None,
            skip: 0,
            hint: None,
            as_of: None,
            collation: None,
            projection,
            ..
        } = request
        else {
            return Ok(None);
        };
        let mut elements = Doc::from(&**filter).elements();
        let (Some(element), None) = (elements.next(), elements.next()) else { return Ok(None) };
        if element.name != b"_id" || !is_plain(element.value()) {
            return Ok(None);
        }
        validate_with(filter.as_bytes(), MESSAGE)?;
        let mut key = Vec::new();
        encode_value(element.value(), &mut key);
        let projection = projection.as_deref().map(Projection::parse).transpose()?.flatten();
        Ok((key.len() <= MAX_KEY).then(|| ById { key, projection, found: false, plan: OnceLock::new() }))
    }

    /// The document, as `reads` has it.
    pub(super) fn find(&mut self, reads: &impl Reads, meta: &Meta) -> Result<Option<RawDocumentBuf>> {
        let found = self.look_up(reads, meta)?;
        self.found = found.is_some();
        match (found, &self.projection) {
            (None, _) => Ok(None),
            (Some(document), None) => Ok(Some(document.into_owned())),
            (Some(document), projection) => project(projection.as_ref(), &document).map(Some),
        }
    }

    fn look_up<'r>(&self, reads: &'r impl Reads, meta: &'r Meta) -> Result<Option<Cow<'r, RawDocument>>> {
        // The `_id` index is a collection's first, and never one that is being built.
        let Some(index) = meta.indexes.first() else { return Ok(None) };
        let Some(value) = reads.get(&index.table, &self.key)? else { return Ok(None) };
        let (_, row) = split_entry(index, &self.key, value)?;
        View { reads, meta }.document(row)
    }

    pub(super) fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| {
            let path = Path::Index {
                index: 0,
                name: "_id_".to_owned(),
                ranges: vec![KeyRange::prefix(self.key.clone())],
                way: Way::Forward,
                distinct: true,
                keys: OnKeys { test: None, complete: true },
            };
            Plan::new(path, false)
        })
    }

    pub(super) fn counters(&self) -> Counters {
        let found = u64::from(self.found);
        Counters { keys_examined: found, docs_examined: found, returned: found }
    }
}

/// True for values that equal just what has the same key: no operators, no arrays (whose elements count too), nothing
/// that a missing field equals.
fn is_plain(value: Value<'_>) -> bool {
    value.is_number()
        || matches!(
            value,
            Value::String(_) | Value::ObjectId(_) | Value::Bool(_) | Value::Date(_) | Value::Binary(..)
        )
}
