//! Dup tables whose keys and values have types.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use super::iter::{DupValues, Pairs};
use crate::Result;
use crate::kv::catalog::{Table, TableKind};
use crate::kv::codec::TypedKey;
use crate::kv::reads::Reads;
use crate::kv::typed::{ends, mismatch, slices};
use crate::kv::write::WriteTxn;

/// A dup table with keys of type `K` and values of type `V`, both in their own order. As with
/// [`TypedTable`](crate::kv::TypedTable), the types are not stored.
///
/// ```
/// use treedb_storage::{Store, TypedDupTable};
///
/// # fn main() -> treedb_storage::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// let store = Store::open(dir.path())?;
/// let mut txn = store.begin_write()?;
/// let films = TypedDupTable::<String, (u16, String)>::open(&mut txn, "films of an actor")?;
/// assert!(films.put(&mut txn, "Hepburn", (1953, "Roman Holiday"))?);
/// assert!(films.put(&mut txn, "Hepburn", (1951, "Secret People"))?);
/// assert!(!films.put(&mut txn, "Hepburn", (1953, "Roman Holiday"))?);
/// txn.commit()?;
///
/// let read = store.begin_read()?;
/// assert_eq!(films.count(&read, "Hepburn")?, 2);
/// let first = films.values(&read, "Hepburn")?.next().transpose()?;
/// assert_eq!(first, Some((1951, "Secret People".to_owned())));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TypedDupTable<K, V> {
    table: Table,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for TypedDupTable<K, V> {
    fn clone(&self) -> Self {
        TypedDupTable { table: self.table.clone(), types: PhantomData }
    }
}

/// Errors are those of the methods of the same names of [`Reads`] and [`WriteTxn`].
impl<K: TypedKey, V: TypedKey> TypedDupTable<K, V> {
    /// The table of this name, created if there is none.
    pub fn open(txn: &mut WriteTxn, name: &str) -> Result<Self> {
        TypedDupTable::of(txn.open_table(name, TableKind::Dup)?)
    }

    /// The table of this name, `None` if there is none.
    pub fn find(read: &impl Reads, name: &str) -> Result<Option<Self>> {
        read.table(name)?.map(TypedDupTable::of).transpose()
    }

    /// The same table with types. `TableMismatch` if it is not a dup table.
    pub fn of(table: Table) -> Result<Self> {
        table.expect(TableKind::Dup)?;
        Ok(TypedDupTable { table, types: PhantomData })
    }

    /// The table without types.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Whether `value` is one of the values of `key`.
    pub fn contains(&self, read: &impl Reads, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<bool> {
        K::with(key, |key| V::with(value, |value| read.contains_pair(&self.table, key, value)))
    }

    /// How many values `key` has.
    pub fn count(&self, read: &impl Reads, key: K::Ref<'_>) -> Result<u64> {
        K::with(key, |key| read.count_values(&self.table, key))
    }

    /// The values of `key`, from both ends.
    pub fn values<'r>(&self, read: &'r impl Reads, key: K::Ref<'_>) -> Result<TypedValues<'r, V>> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let values = K::with(key, |key| read.values_in(&self.table, key, all))?;
        Ok(TypedValues { values, table: self.table.clone(), types: PhantomData })
    }

    /// The values of `key` within `bounds`, from both ends.
    pub fn values_in<'r, 'v>(
        &self,
        read: &'r impl Reads,
        key: K::Ref<'_>,
        bounds: impl RangeBounds<V::Ref<'v>>,
    ) -> Result<TypedValues<'r, V>> {
        let bounds = ends::<V>(&bounds);
        let values = K::with(key, |key| read.values_in(&self.table, key, slices(&bounds)))?;
        Ok(TypedValues { values, table: self.table.clone(), types: PhantomData })
    }

    /// The pairs of the keys within `bounds`, from both ends.
    pub fn pairs<'r, 'k>(
        &self,
        read: &'r impl Reads,
        bounds: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<TypedPairs<'r, K, V>> {
        let pairs = read.pairs(&self.table, slices(&ends::<K>(&bounds)))?;
        Ok(TypedPairs { pairs, table: self.clone() })
    }

    /// Number of pairs.
    pub fn len(&self, read: &impl Reads) -> Result<u64> {
        read.len(&self.table)
    }

    /// True if the table has no pairs.
    pub fn is_empty(&self, read: &impl Reads) -> Result<bool> {
        read.is_empty(&self.table)
    }

    /// Adds `value` to the values of `key`; false if it was among them.
    pub fn put(&self, txn: &mut WriteTxn, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<bool> {
        K::with(key, |key| V::with(value, |value| txn.put_pair(&self.table, key, value)))
    }

    /// Removes `value` from the values of `key`; false if it was not among them.
    pub fn delete(&self, txn: &mut WriteTxn, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<bool> {
        K::with(key, |key| V::with(value, |value| txn.delete_pair(&self.table, key, value)))
    }

    /// Removes `key` with all its values and returns how many there were.
    pub fn delete_all(&self, txn: &mut WriteTxn, key: K::Ref<'_>) -> Result<u64> {
        K::with(key, |key| txn.delete_values(&self.table, key))
    }

    /// Removes the keys within `bounds` and returns how many pairs there were.
    pub fn delete_range<'k>(&self, txn: &mut WriteTxn, bounds: impl RangeBounds<K::Ref<'k>>) -> Result<u64> {
        txn.delete_range(&self.table, slices(&ends::<K>(&bounds)))
    }
}

fn read_as<T: TypedKey>(table: &Table, bytes: &[u8], what: &str) -> Result<T> {
    T::whole(bytes).ok_or_else(|| mismatch(table, what))
}

/// The values of a key of a [`TypedDupTable`], from either end.
pub struct TypedValues<'r, V> {
    values: DupValues<'r>,
    table: Table,
    types: PhantomData<fn() -> V>,
}

impl<V: TypedKey> Iterator for TypedValues<'_, V> {
    type Item = Result<V>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.values.next()?;
        Some(value.and_then(|value| read_as(&self.table, &value, "value")))
    }
}

impl<V: TypedKey> DoubleEndedIterator for TypedValues<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let value = self.values.next_back()?;
        Some(value.and_then(|value| read_as(&self.table, &value, "value")))
    }
}

/// The pairs of a [`TypedDupTable`] between two keys, from either end.
pub struct TypedPairs<'r, K, V> {
    pairs: Pairs<'r>,
    table: TypedDupTable<K, V>,
}

impl<K: TypedKey, V: TypedKey> TypedPairs<'_, K, V> {
    fn read(&self, (key, value): (Vec<u8>, Vec<u8>)) -> Result<(K, V)> {
        let table = self.table.table();
        Ok((read_as(table, &key, "key")?, read_as(table, &value, "value")?))
    }
}

impl<K: TypedKey, V: TypedKey> Iterator for TypedPairs<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.pairs.next()?;
        Some(pair.and_then(|pair| self.read(pair)))
    }
}

impl<K: TypedKey, V: TypedKey> DoubleEndedIterator for TypedPairs<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let pair = self.pairs.next_back()?;
        Some(pair.and_then(|pair| self.read(pair)))
    }
}
