//! Finding fields by their names, where there may be very many.
//!
//! Looking through a few names is faster than hashing one. But a client may name a million fields, of a document that has as many, and who
//! compares each with each then works for hours. So from [`FEW`] on they are hashed.

use std::collections::HashMap;

use super::{Doc, Element};

/// So many names are looked through, or so many times.
pub(crate) const FEW: usize = 32;

/// Values by the names of fields, each name once, in the order in which they were added.
#[derive(Debug, Clone)]
pub(crate) struct ByName<T> {
    entries: Vec<(String, T)>,
    /// The place of each name in `entries`, once there are more than [`FEW`].
    places: HashMap<Box<[u8]>, usize>,
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        ByName { entries: Vec::new(), places: HashMap::new() }
    }
}

impl<T: PartialEq> PartialEq for ByName<T> {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl<T> ByName<T> {
    fn place(&self, name: &[u8]) -> Option<usize> {
        if self.places.is_empty() {
            return self.entries.iter().position(|(known, _)| known.as_bytes() == name);
        }
        self.places.get(name).copied()
    }

    /// The value of a name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&T> {
        self.place(name).map(|at| &self.entries[at].1)
    }

    /// The value of a name, to change it.
    pub(crate) fn find_mut(&mut self, name: &[u8]) -> Option<&mut T> {
        self.place(name).map(|at| &mut self.entries[at].1)
    }

    /// Adds a name that is not there yet.
    pub(crate) fn push(&mut self, name: String, value: T) {
        self.entries.push((name, value));
        let missing = match self.entries.len() {
            count if count <= FEW => return,
            count if self.places.is_empty() => 0..count,
            count => count - 1..count,
        };
        for at in missing {
            self.places.insert(self.entries[at].0.as_bytes().into(), at);
        }
    }

    /// True if there is no name.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The names with their values, in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(String, T)> {
        self.entries.iter()
    }

    /// The same names with other values.
    ///
    /// # Errors
    /// Those of `change`.
    pub(crate) fn try_map<E>(self, mut change: impl FnMut(T) -> Result<T, E>) -> Result<Self, E> {
        let changed = self.entries.into_iter().map(|(name, value)| Ok((name, change(value)?)));
        Ok(ByName { entries: changed.collect::<Result<_, E>>()?, places: self.places })
    }
}

/// The fields of a document by name, for who looks for many of them.
#[derive(Debug)]
pub struct FieldsByName<'a> {
    doc: Doc<'a>,
    /// How often the document was looked through.
    walks: usize,
    /// The first field of each name, after [`FEW`] walks.
    hashed: Option<HashMap<&'a [u8], Element<'a>>>,
}

impl<'a> FieldsByName<'a> {
    /// Those of a document.
    pub fn new(doc: Doc<'a>) -> Self {
        FieldsByName { doc, walks: 0, hashed: None }
    }

    /// The first field of that name.
    pub fn find(&mut self, name: &[u8]) -> Option<Element<'a>> {
        if self.walks < FEW {
            self.walks += 1;
            return self.doc.find(name);
        }
        let hashed = self.hashed.get_or_insert_with(|| {
            let mut hashed = HashMap::new();
            self.doc.elements().for_each(|field| {
                hashed.entry(field.name).or_insert(field);
            });
            hashed
        });
        hashed.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use bson::RawDocumentBuf;
    use bson::raw::CString;

    use super::*;

    #[test]
    fn few_and_many_names_are_found_in_the_same_way() {
        for count in [0, 1, FEW - 1, FEW, FEW + 1, 3 * FEW] {
            let mut by_name = ByName::default();
            (0..count).for_each(|n| by_name.push(format!("f{n}"), n));
            assert_eq!(by_name.is_empty(), count == 0);
            for n in 0..count {
                assert_eq!(by_name.find(format!("f{n}").as_bytes()), Some(&n));
                *by_name.find_mut(format!("f{n}").as_bytes()).unwrap() += 1;
            }
            assert_eq!(by_name.find(b"g"), None);
            let doubled = by_name.try_map(|n| Ok::<_, ()>(2 * n)).unwrap();
            assert!(
                doubled
                    .iter()
                    .enumerate()
                    .all(|(n, (name, value))| *name == format!("f{n}") && *value == 2 * n + 2)
            );
            assert_eq!(doubled.find(b"f0").is_some(), count > 0);
        }
    }

    #[test]
    fn of_a_name_that_occurs_twice_the_first_field_is_found_however_often_it_is_looked_for() {
        let mut document = RawDocumentBuf::new();
        for n in 0..100 {
            document.append(CString::try_from(format!("f{}", n % 50)).unwrap(), n);
        }
        let doc = Doc::from(&document);
        let mut fields = FieldsByName::new(doc);
        for n in (0..60).chain(0..60) {
            let name = format!("f{n}");
            assert_eq!(fields.find(name.as_bytes()), doc.find(name.as_bytes()));
        }
    }
}
