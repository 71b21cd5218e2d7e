//! Updates and deletes over any [`Sink`]: finds the rows, then changes them.
//!
//! Rows are collected first, so that a scan cannot find a changed row again. Then the current version of each
//! is read, which may differ from the one that was found, and must still match.

use std::borrow::Cow;

use bson::RawDocumentBuf;

use crate::access::{Change, Sink};
use crate::doc::{Collation, with_id};
use crate::error::Result;

use crate::query::update::Update;
use crate::query::{Query, find_rows};

/// What an update did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Updated {
    /// Rows that the filter matched.
    pub matched: u64,
    /// Rows that were changed.
    pub modified: u64,
    /// The document that was inserted because none matched.
    pub upserted: Option<RawDocumentBuf>,
}

/// Applies `update` to the rows that `query` finds: all of them, or the first one if not `multi`. With
/// `upsert`, a document made from filter and update is inserted if none matches. Strings are compared with
/// the collation of the query.
///
/// # Errors
/// Those of the update's parts, each naming the field; of a replacement with `multi`, `FailedToParse`.
pub fn update(
    sink: &mut dyn Sink,
    query: &Query,
    update: &Update,
    multi: bool,
    upsert: bool,
) -> Result<Updated> {
    update.refuse_many(multi)?;
    let update = collated(update, &query.collation)?;
    let update = &*update;
    let change = if update.is_replacement() { Change::Replace } else { Change::Update };
    let mut done = change_rows(sink, query, u64::from(!multi), &mut |old| {
        Ok(update.apply(old, &query.filter)?.map_or(Change::Keep, change))
    })?;
    if done.matched == 0 && upsert {
        let new = update.upsert(&query.filter)?;
        let new = with_id(&new)?.into_owned();
        sink.insert(&new)?;
        done.upserted = Some(new);
    }
    Ok(done)
}

/// The update, comparing strings by `collation`.
pub(super) fn collated<'u>(update: &'u Update, collation: &Collation) -> Result<Cow<'u, Update>> {
    Ok(match collation.is_simple() {
        true => Cow::Borrowed(update),
        false => Cow::Owned(update.clone().collated(collation)?),
    })
}

/// Deletes the rows that `query` finds, at most `limit` (0: all), and returns their number.
pub fn delete(sink: &mut dyn Sink, query: &Query, limit: u64) -> Result<u64> {
    Ok(change_rows(sink, query, limit, &mut |_| Ok(Change::Delete))?.matched)
}

/// Calls `change` for the rows that match, at most `limit`, and returns how many they are, and how many were changed.
pub(super) fn change_rows(
    sink: &mut dyn Sink,
    query: &Query,
    limit: u64,
    change: &mut dyn FnMut(&bson::RawDocument) -> Result<Change>,
) -> Result<Updated> {
    let (mut done, mut tried) = (Updated::default(), 0_u64);
    let again = query.filter.again();
    loop {
        let most = if limit == 0 { 0 } else { tried + (limit - done.matched) };
        let mut rows = Vec::new();
        sink.read(&mut |source, context| {
            rows = find_rows(source, context, query, most)?;
            Ok(())
        })?;
        let found = rows.len() as u64;
        for row in rows.into_iter().skip(usize::try_from(tried).unwrap_or(usize::MAX)) {
            // What the last call of several says is what was done, unless the row was gone after that.
            let (mut matches, mut modifies) = (false, false);
            let there = sink.modify(row, &mut |old| {
                matches = again.matches(old)?;
                let new = if matches { change(old)? } else { Change::Keep };
                modifies = !matches!(new, Change::Keep);
                Ok(new)
            })?;
            done.matched += u64::from(there && matches);
            done.modified += u64::from(there && modifies);
        }
        // Other writers changed some of the rows first, and there may be more rows that match: continue after these.
        // (Without other writers every row found still matches, and the loop ends here.)
        if limit == 0 || done.matched >= limit || found < most || found <= tried {
            return Ok(done);
        }
        tried = found;
    }
}
