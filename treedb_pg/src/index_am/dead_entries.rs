//! Removing entries of dead rows from a leaf that is full, instead of splitting it.
//!
//! A row that is updated gets an entry in every index, also where its values are the same as before; the entries of its
//! older versions are of no use once no transaction sees these. Scans mark the ones that they come across. Of the others the
//! table knows: entries with the same columns as a neighbour are likely to be of versions of one row, and these are looked
//! up. So an index whose values do not change stays at about twice the size of its rows, however often these are updated
//! between two vacuums.

use super::insert::Inserted;
use super::leaf_entries::LeafEntries;
use super::schema::{ADDRESS, row_of};
use super::tree::Tree;
use crate::shim::index_delete::{Candidate, dead_versions, known_dead};
use crate::shim::{buffer, fault, heap};

/// Without a hint of the server's that rows are updated, dead versions are looked for where one of so many entries has the
/// columns of a neighbour.
const DUPLICATES_PART: usize = 4;

impl Tree<'_> {
    /// Removes entries of rows that are dead to every transaction from the list of a full leaf: those that are marked, and,
    /// as long as it is not `enough`, those that the table finds among versions of the same rows. False if it is not enough
    /// then. The entry with the key `new` is the one that is being inserted.
    pub(super) fn remove_dead(
        &self,
        block: u32,
        entries: &mut LeafEntries<'_>,
        new: &[u8],
        inserted: Inserted<'_>,
        enough: impl Fn(&LeafEntries<'_>) -> bool,
    ) -> bool {
        let (numbers, marked) = candidates(entries, |i| entries.is_marked(i));
        self.expect_rows(block, &marked, inserted);
        if !marked.is_empty() {
            remove(entries, &numbers, &known_dead(inserted.table, self.index, block, &marked));
            fault::point("marked_removed");
            if enough(entries) {
                return true;
            }
        }
        let (numbers, all) = candidates(entries, |i| entries.key(i) != new);
        let duplicates = all.iter().filter(|candidate| candidate.promising).count();
        if duplicates == 0 || !(inserted.unchanged || duplicates * DUPLICATES_PART >= all.len()) {
            return false;
        }
        self.expect_rows(block, &all, inserted);
        remove(entries, &numbers, &dead_versions(inserted.table, self.index, block, &all));
        fault::point("versions_removed");
        enough(entries)
    }

    /// Raises an error if the table does not have the rows of a leaf's entries: it would look for their blocks in files
    /// that are not there.
    fn expect_rows(&self, block: u32, candidates: &[Candidate], inserted: Inserted<'_>) {
        let rows = candidates.iter().map(|candidate| candidate.row);
        if let Some(last) = rows.max_by_key(|row| heap::tid_parts(*row).0) {
            buffer::expect_row(*inserted.table, self.index, block, last);
        }
    }
}

/// The entries that `may` be removed, with their numbers.
fn candidates(entries: &LeafEntries<'_>, may: impl Fn(usize) -> bool) -> (Vec<usize>, Vec<Candidate>) {
    let columns = |i: usize| {
        let key = entries.key(i);
        key.len().checked_sub(ADDRESS).and_then(|len| key.get(..len))
    };
    let is_version = |i: usize| {
        let here = columns(i);
        here.is_some() && (i > 0 && columns(i - 1) == here || columns(i + 1) == here)
    };
    let chosen = (0..entries.len()).filter(|i| may(*i)).filter_map(|i| {
        let row = row_of(entries.key(i)).ok()?;
        Some((i, Candidate { row, known_dead: entries.is_marked(i), promising: is_version(i) }))
    });
    chosen.unzip()
}

/// Removes those of the entries with these numbers, which ascend, that are `dead`.
fn remove(entries: &mut LeafEntries<'_>, numbers: &[usize], dead: &[bool]) {
    let mut gone = numbers.iter().zip(dead).filter(|(_, dead)| **dead).map(|(number, _)| *number).peekable();
    entries.retain(|i| gone.next_if_eq(&i).is_none());
}
