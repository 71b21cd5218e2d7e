//! Tables whose keys and values have types.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use super::catalog::{Table, TableKind};
use super::codec::{TypedKey, TypedValue};
use super::cursor::Range;
use super::reads::{Bounds, Reads};
use super::write::WriteTxn;
use crate::{Error, Result};

/// An ordered table with keys of type `K` in their own order and values of type `V`: a handle; on disk there are
/// only the bytes that [`TypedKey`] and [`TypedValue`] define. The types are not stored; a table opened with other types
/// returns `TableMismatch` where its bytes cannot be theirs.
///
/// ```
/// use treedb_storage::{Store, TypedTable};
///
/// # fn main() -> treedb_storage::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// let store = Store::open(dir.path())?;
/// let mut txn = store.begin_write()?;
/// let scores = TypedTable::<(String, u32), i64>::open(&mut txn, "scores")?;
/// scores.put(&mut txn, ("ada", 1), -7)?;
/// scores.put(&mut txn, ("ada", 2), 12)?;
/// txn.commit()?;
///
/// let read = store.begin_read()?;
/// assert_eq!(scores.get(&read, ("ada", 2))?, Some(12));
/// let of_ada: Vec<_> = scores.range(&read, ("ada", 0)..("adb", 0))?.collect::<Result<_, _>>()?;
/// assert_eq!(of_ada[0], (("ada".to_owned(), 1), -7));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TypedTable<K, V> {
    table: Table,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for TypedTable<K, V> {
    fn clone(&self) -> Self {
        TypedTable { table: self.table.clone(), types: PhantomData }
    }
}

/// The bytes of bounds.
pub(super) fn ends<'k, K: TypedKey>(
    bounds: &impl RangeBounds<K::Ref<'k>>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bytes = |key: &K::Ref<'k>| K::with(*key, <[u8]>::to_vec);
    (bounds.start_bound().map(bytes), bounds.end_bound().map(bytes))
}

pub(super) fn slices((from, to): &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Bounds<'_> {
    (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))
}

/// `TableMismatch`: the bytes of a `what` are not those of its type.
pub(super) fn mismatch(table: &Table, what: &str) -> Error {
    let what = format!("has a {what} that is not of the type it was opened with");
    Error::TableMismatch { name: table.name().to_owned(), what }
}

fn value_in<'a, V: TypedValue>(table: &Table, bytes: &'a [u8]) -> Result<V::Ref<'a>> {
    V::read(bytes).ok_or_else(|| mismatch(table, "value"))
}

fn entry_in<'a, K: TypedKey, V: TypedValue>(
    table: &Table,
    (key, value): (Vec<u8>, &'a [u8]),
) -> Result<(K, V::Ref<'a>)> {
    let key = K::whole(&key).ok_or_else(|| mismatch(table, "key"))?;
    Ok((key, value_in::<V>(table, value)?))
}

/// Errors are those of the methods of the same names of [`Reads`] and [`WriteTxn`].
impl<K: TypedKey, V: TypedValue> TypedTable<K, V> {
    /// The table of this name, created if there is none.
    pub fn open(txn: &mut WriteTxn, name: &str) -> Result<Self> {
        TypedTable::of(txn.open_table(name, TableKind::Ordered)?)
    }

    /// The table of this name, `None` if there is none.
    pub fn find(read: &impl Reads, name: &str) -> Result<Option<Self>> {
        read.table(name)?.map(TypedTable::of).transpose()
    }

    /// The same table with types. `TableMismatch` if it holds rows.
    pub fn of(table: Table) -> Result<Self> {
        table.expect(TableKind::Ordered)?;
        Ok(TypedTable { table, types: PhantomData })
    }

    /// The table without types.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The value of `key`, `None` if it is not there.
    pub fn get<'r>(&self, read: &'r impl Reads, key: K::Ref<'_>) -> Result<Option<V::Ref<'r>>> {
        let bytes = K::with(key, |key| read.get(&self.table, key))?;
        bytes.map(|bytes| value_in::<V>(&self.table, bytes)).transpose()
    }

    /// The lowest key and its value, `None` if the table is empty.
    pub fn first<'r>(&self, read: &'r impl Reads) -> Result<Option<(K, V::Ref<'r>)>> {
        read.first(&self.table)?.map(|entry| entry_in::<K, V>(&self.table, entry)).transpose()
    }

    /// The highest key and its value, `None` if the table is empty.
    pub fn last<'r>(&self, read: &'r impl Reads) -> Result<Option<(K, V::Ref<'r>)>> {
        read.last(&self.table)?.map(|entry| entry_in::<K, V>(&self.table, entry)).transpose()
    }

    /// Keys and values within `bounds`, from both ends.
    pub fn range<'r, 'k>(
        &self,
        read: &'r impl Reads,
        bounds: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<TypedRange<'r, K, V>> {
        let range = read.range(&self.table, slices(&ends::<K>(&bounds)))?;
        Ok(TypedRange { range, table: self.clone() })
    }

    /// The keys that begin with `prefix`, and their values, from both ends: of a table whose keys are tuples, those with
    /// given first parts (`P` is the tuple of these); of one with strings or bytes, those that begin with others.
    pub fn prefix<'r, P: TypedKey>(
        &self,
        read: &'r impl Reads,
        prefix: P::Ref<'_>,
    ) -> Result<TypedRange<'r, K, V>> {
        let range = P::with(prefix, |prefix| read.prefix(&self.table, prefix))?;
        Ok(TypedRange { range, table: self.clone() })
    }

    /// The values of `keys`, in the same order; see [`Reads::get_many`].
    pub fn get_many<'r, 'k>(
        &self,
        read: &'r impl Reads,
        keys: impl IntoIterator<Item = K::Ref<'k>>,
    ) -> Result<Vec<Option<V::Ref<'r>>>> {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|key| K::with(key, <[u8]>::to_vec)).collect();
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let found = read.get_many(&self.table, &slices)?;
        let read_one =
            |bytes: Option<&'r [u8]>| bytes.map(|bytes| value_in::<V>(&self.table, bytes)).transpose();
        found.into_iter().map(read_one).collect()
    }

    /// Number of entries.
    pub fn len(&self, read: &impl Reads) -> Result<u64> {
        read.len(&self.table)
    }

    /// True if the table has no entries.
    pub fn is_empty(&self, read: &impl Reads) -> Result<bool> {
        read.is_empty(&self.table)
    }

    /// Stores `value` under `key`, instead of what was there.
    pub fn put(&self, txn: &mut WriteTxn, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<()> {
        K::with(key, |key| V::with(value, |value| txn.put(&self.table, key, value)))
    }

    /// Stores `value` under `key` unless something is there; true if it was stored.
    pub fn put_if_absent(&self, txn: &mut WriteTxn, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<bool> {
        K::with(key, |key| V::with(value, |value| txn.put_if_absent(&self.table, key, value)))
    }

    /// Stores `value` under `key`, which must be above every key of the table.
    pub fn append(&self, txn: &mut WriteTxn, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<()> {
        K::with(key, |key| V::with(value, |value| txn.append(&self.table, key, value)))
    }

    /// Removes `key`; false if it was not there.
    pub fn delete(&self, txn: &mut WriteTxn, key: K::Ref<'_>) -> Result<bool> {
        K::with(key, |key| txn.delete(&self.table, key))
    }

    /// Removes the keys within `bounds` and returns how many there were.
    pub fn delete_range<'k>(&self, txn: &mut WriteTxn, bounds: impl RangeBounds<K::Ref<'k>>) -> Result<u64> {
        txn.delete_range(&self.table, slices(&ends::<K>(&bounds)))
    }
}

/// The keys and values of a [`TypedTable`] between two bounds, from either end. After an error of the table it is at
/// its end; after an entry of another type it continues.
pub struct TypedRange<'r, K, V> {
    range: Range<'r>,
    table: TypedTable<K, V>,
}

impl<'r, K: TypedKey, V: TypedValue> Iterator for TypedRange<'r, K, V> {
    type Item = Result<(K, V::Ref<'r>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.range.next()?;
        Some(entry.and_then(|entry| entry_in::<K, V>(self.table.table(), entry)))
    }
}

impl<K: TypedKey, V: TypedValue> DoubleEndedIterator for TypedRange<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.range.next_back()?;
        Some(entry.and_then(|entry| entry_in::<K, V>(self.table.table(), entry)))
    }
}
