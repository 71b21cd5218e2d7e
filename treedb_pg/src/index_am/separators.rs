//! Separators of branches.
//!
//! In an index in the order of bytes a separator is a part of a key that is as short as possible. Where that would be
//! longer than the whole key is when it is compressed (see [`super::schema`]), it is the compressed key, and its branch is
//! not searched by bytes ([`Keys::Custom`]). So a branch changes its order with the first such separator that it gets:
//! without a common prefix it is longer then, and may have to be divided first.

use std::borrow::Cow;

use treedb_formats::node::{Branch, BranchMut, BranchSplit, Keys, MAX_PAYLOAD, NodeDamage};

use super::schema::Schema;
use crate::pages::page::ROOM;

/// Inserts separator `place` and the child right of it; false, and no change, if the branch is full.
pub(super) fn insert_separator(
    schema: &Schema,
    node: &mut [u8],
    place: usize,
    separator: &[u8],
    child: u32,
) -> Result<bool, NodeDamage> {
    if !changes_order(schema, &Branch::open(node)?, separator) {
        return BranchMut::open(node)?.insert(place, separator, child);
    }
    let Some(mut custom) = in_custom_order(node, node.len())? else { return Ok(false) };
    let fits = BranchMut::open(&mut custom)?.insert(place, separator, child)?;
    if fits {
        node.copy_from_slice(&custom);
    }
    Ok(fits)
}

/// The node of a branch as one that a separator may be inserted into, longer than a page if need be; `None` if the branch
/// must be divided first.
pub(super) fn open_to<'n>(
    schema: &Schema,
    node: &'n [u8],
    separator: &[u8],
) -> Result<Option<Cow<'n, [u8]>>, NodeDamage> {
    match changes_order(schema, &Branch::open(node)?, separator) {
        true => Ok(in_custom_order(node, MAX_PAYLOAD)?.map(Cow::Owned)),
        false => Ok(Some(node.into())),
    }
}

/// Whether a branch is searched by bytes, but cannot be with this separator.
fn changes_order(schema: &Schema, branch: &Branch<'_>, separator: &[u8]) -> bool {
    schema.is_compressed(separator) && branch.keys() == Keys::Bytewise
}

/// The same branch, of `len` bytes, searched by comparing separators; `None` if it does not fit.
fn in_custom_order(node: &[u8], len: usize) -> Result<Option<Vec<u8>>, NodeDamage> {
    let branch = Branch::open(node)?;
    let mut copy = vec![0; len];
    let mut custom = BranchMut::init(&mut copy, Keys::Custom, branch.child(0)?)?;
    let mut separator = Vec::new();
    for i in 0..branch.count() {
        branch.separator_into(i, &mut separator)?;
        if !custom.insert(i, &separator, branch.child(i + 1)?)? {
            return Ok(None);
        }
    }
    Ok(Some(copy))
}

/// Plans to split a branch into which a separator and the child right of it do not fit at this place. `open` is what
/// [`open_to`] has made of `node`. The right half has `right` bytes, the left one those of a page, beside the separator
/// between the two. False if the separator could not go into either half: the caller tries again after the split.
pub(super) fn plan_split<'b>(
    node: &'b [u8],
    open: Option<&'b [u8]>,
    (place, separator, child): (usize, &'b [u8], u32),
    right: usize,
) -> Result<(BranchSplit<'b>, bool), NodeDamage> {
    if let Some(open) = open {
        let mut plan = Branch::open(open)?.split(place, separator, child)?;
        if plan.fit_beside(ROOM, right)? {
            return Ok((plan, true));
        }
    }
    let mut plan = Branch::open(node)?.divide()?;
    match plan.fit_beside(ROOM, right)? {
        true => Ok((plan, false)),
        false => Err(NodeDamage::new(0, "separators that two pages can hold", separator.len())),
    }
}
