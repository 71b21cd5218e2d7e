//! Sets of relations of a query: the planner's, copied to be compared, hashed and united without calls of the server.

use std::ptr;

use pgrx::pg_sys;

/// The numbers of some relations: a bit each, no word of zeros at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RelationSet(Vec<pg_sys::bitmapword>);

impl RelationSet {
    /// # Safety
    /// A set of the planner's.
    pub(super) unsafe fn of(set: pg_sys::Relids) -> RelationSet {
        // SAFETY: the empty set is a null pointer; others have as many words as they say.
        RelationSet::trimmed(unsafe {
            set.as_ref().map_or(Vec::new(), |set| set.words.as_slice(set.nwords.max(0) as usize).to_vec())
        })
    }

    fn trimmed(mut words: Vec<pg_sys::bitmapword>) -> RelationSet {
        while words.last() == Some(&0) {
            words.pop();
        }
        RelationSet(words)
    }

    /// Whether all of these are among `others`.
    pub(super) fn is_within(&self, others: &RelationSet) -> bool {
        self.0.len() <= others.0.len() && self.0.iter().zip(&others.0).all(|(own, other)| own & !other == 0)
    }

    /// These and `others`.
    pub(super) fn and(&self, others: &RelationSet) -> RelationSet {
        let (longer, shorter) = if self.0.len() < others.0.len() { (others, self) } else { (self, others) };
        let mut both = longer.clone();
        both.0.iter_mut().zip(&shorter.0).for_each(|(word, more)| *word |= more);
        both
    }

    /// All of these but one.
    pub(super) fn without(mut self, number: pg_sys::Index) -> RelationSet {
        let bits = pg_sys::bitmapword::BITS;
        if let Some(word) = self.0.get_mut((number / bits) as usize) {
            *word &= !(1 << (number % bits));
        }
        RelationSet::trimmed(self.0)
    }

    /// The same in the planner's form.
    ///
    /// # Safety
    /// In the planner.
    pub(super) unsafe fn to_planner(&self) -> pg_sys::Relids {
        let bits = pg_sys::bitmapword::BITS;
        let numbers = self.0.iter().zip(0..).flat_map(|(word, at)| {
            (0..bits).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * bits + bit)
        });
        // SAFETY: the server adds numbers to a set of its own.
        numbers.fold(ptr::null_mut(), |set, number| unsafe { pg_sys::bms_add_member(set, number as i32) })
    }
}
