//! Inserting several entries at one place of a leaf: its arrays are moved once for all of them.

use super::bytes::{compare, head_of, starts_with};
use super::raw::{Layout, Load, Raw, cell_size, stride};
use super::raw_mut::{RawMut, Trend, shift, slack, store, store_cell, store_u16};
use super::{NodeDamage, Value, max_key, max_value};

impl RawMut<'_, false> {
    /// Inserts at place `i`, which is the first one's, as many of `entries` as are in order, belong there and fit into the
    /// gap without a change of the prefix; returns how many. `bound`, if any, is above every key of the leaf.
    pub(super) fn insert_all(
        &mut self,
        i: usize,
        entries: &[(&[u8], &[u8])],
        bound: Option<&[u8]>,
    ) -> Result<usize, NodeDamage> {
        let mut l = Layout::parse::<false>(self.page)?;
        if i > l.count {
            return Err(NodeDamage::new(2, "a place for new entries", i));
        }
        let fit = Raw::<false>::of(self.page, &l)?.fitting(&l, i, entries, bound)?;
        let entries = entries.get(..fit.count).unwrap_or_default();
        if entries.is_empty() {
            return Ok(0);
        }
        if let Some(lacking) = (l.count + fit.count).checked_sub(l.cap + 1) {
            // A little more than needed, so that the next one does not move the slots again.
            let each = stride(false) + fit.bytes / fit.count;
            let left = l.cells - l.end - fit.bytes - (lacking + 1) * stride(false);
            self.grow(&mut l, lacking + 1 + slack(left, each))?;
        }
        let after = l.count - i;
        shift(self.page, l.heads + 8 * i, l.heads + 8 * (i + fit.count), 8 * after)?;
        shift(self.page, l.slots + 2 * i, l.slots + 2 * (i + fit.count), 2 * after)?;
        let mut cells = l.cells;
        for (place, (key, value)) in (i..).zip(entries) {
            let load = Load::value(Value::inline(value));
            let klen = key.len() - l.prefix;
            cells -= cell_size(false, klen, value.len());
            let rest = key.get(l.prefix + 8..).unwrap_or(&[]);
            let slot = store_cell::<false>(self.page, cells, klen, rest, &load)?;
            store(self.page, l.heads + 8 * place, &head_of(key, l.prefix).to_le_bytes())?;
            store_u16(self.page, l.slots + 2 * place, slot)?;
        }
        store_u16(self.page, 2, l.count + fit.count)?;
        store_u16(self.page, 8, cells)?;
        store(self.page, 12, &Trend::of(l.leftmost).with_several(i, fit.count).to_le_bytes())?;
        Ok(fit.count)
    }
}

/// How many entries fit, and the bytes of their cells.
struct Fit {
    count: usize,
    bytes: usize,
}

impl Raw<'_, false> {
    /// How many of `entries` can be inserted at place `i` as the node is.
    fn fitting(
        &self,
        l: &Layout,
        i: usize,
        entries: &[(&[u8], &[u8])],
        bound: Option<&[u8]>,
    ) -> Result<Fit, NodeDamage> {
        let (payload, gap) = (self.page.len(), l.cells - l.end);
        let mut fit = Fit { count: 0, bytes: 0 };
        let mut before: Option<&[u8]> = None;
        for &(key, value) in entries {
            let in_order = before.is_none_or(|before| compare(before, key).is_lt());
            let taken = key.len() <= max_key(payload) && value.len() <= max_value(payload);
            if !in_order || !taken || !starts_with(key, self.prefix) {
                break;
            }
            let below = match i < l.count {
                // That of the first entry is known.
                true => before.is_none() || self.is_above(i, key)?,
                false => bound.is_none_or(|bound| compare(key, bound).is_lt()),
            };
            let bytes = fit.bytes + cell_size(false, key.len() - l.prefix, value.len());
            let more = (l.count + fit.count + 1).saturating_sub(l.cap);
            if !below || bytes + more * stride(false) > gap {
                break;
            }
            fit = Fit { count: fit.count + 1, bytes };
            before = Some(key);
        }
        Ok(fit)
    }

    /// Whether key `i` is above `key`, which begins with the node's prefix.
    fn is_above(&self, i: usize, key: &[u8]) -> Result<bool, NodeDamage> {
        let (mine, head) = (self.head(i), head_of(key, self.prefix.len()));
        if mine != head {
            return Ok(mine > head);
        }
        let (klen, rest) = self.key_parts(i)?;
        let other = key.get(self.prefix.len()..).unwrap_or_default();
        Ok(compare(rest, other.get(8..).unwrap_or_default()).then(klen.cmp(&other.len())).is_gt())
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::{Rng, seeds};

    use super::super::tests::entries;
    use super::super::{Keys, Leaf, LeafMut};
    use super::*;

    #[test]
    fn inserting_several_entries_at_once_equals_single_inserts() {
        for seed in seeds(0..300) {
            let mut rng = Rng::new(seed);
            let payload = 256 + rng.below(4000);
            let (mut ones, mut all) = (vec![0; payload], vec![0; payload]);
            for page in [&mut ones, &mut all] {
                LeafMut::init(page, Keys::Bytewise).unwrap();
            }
            let most = max_key(payload).min(1 + rng.below(60));
            let mut key = || (0..rng.below(most)).map(|_| b'a' + rng.below(3) as u8).collect::<Vec<_>>();
            for _ in 0..200 {
                let mut new: Vec<(Vec<u8>, Vec<u8>)> = (0..20).map(|_| (key(), key())).collect();
                if seed % 4 > 0 {
                    new.sort();
                }
                new.retain(|(_, value)| value.len() <= max_value(payload));
                let new: Vec<(&[u8], &[u8])> = new.iter().map(|(k, v)| (&k[..], &v[..])).collect();
                let Some((first, value)) = new.first() else { continue };
                let Err(i) = Leaf::open(&all).unwrap().search(first).unwrap() else { continue };
                let count = LeafMut::open(&mut all).unwrap().insert_all(i, &new, None).unwrap();
                for (place, (key, value)) in (i..).zip(&new[..count]) {
                    let mut leaf = LeafMut::open(&mut ones).unwrap();
                    assert_eq!(leaf.view().unwrap().search(key).unwrap(), Err(place));
                    assert!(leaf.insert(place, key, Value::inline(value)).unwrap());
                }
                assert_eq!(entries(&ones), entries(&all));
                assert_eq!(ones[12..16], all[12..16], "the trend");
                if count == 0 {
                    // Full, or a key without the prefix: one at a time may rebuild the node.
                    let done =
                        LeafMut::open(&mut all).unwrap().insert(i, first, Value::inline(value)).unwrap();
                    if !done {
                        break;
                    }
                    ones.copy_from_slice(&all);
                }
            }
            assert!(Leaf::open(&all).unwrap().count() > 0);
        }
    }
}
