//! Changes to be made together.

/// One change of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// A key and its new value.
    Put(&'a [u8], &'a [u8]),
    /// A key that goes.
    Delete(&'a [u8]),
}

/// Changes made in order and together: [`Db::write`](super::Db::write).
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    /// Where each key ends, and where its value ends, if it has one.
    ends: Vec<(usize, Option<usize>)>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Stores `value` under `key`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((end, Some(self.bytes.len())));
    }

    /// Removes `key`, if it is there.
    pub fn delete(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push((self.bytes.len(), None));
    }

    /// Forgets all changes.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the changes of another batch after its own.
    pub fn append(&mut self, other: &WriteBatch) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|&(key, value)| (base + key, value.map(|end| base + end))));
    }

    /// Bytes of its keys and values.
    pub fn approximate_size(&self) -> usize {
        self.bytes.len()
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The changes in order.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        let mut begin = 0;
        self.ends.iter().map(move |&(key_end, value_end)| {
            let key = self.bytes.get(begin..key_end).unwrap_or_default();
            begin = value_end.unwrap_or(key_end);
            match value_end {
                Some(end) => Change::Put(key, self.bytes.get(key_end..end).unwrap_or_default()),
                None => Change::Delete(key),
            }
        })
    }
}
