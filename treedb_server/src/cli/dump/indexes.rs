//! Indexes that are created when a dump's documents are there and the entries of its oplog are replayed: in between, unique ones would
//! refuse documents that a later entry changes or deletes. What entries say of indexes changes these.

use std::collections::BTreeMap;

use bson::{Bson, Document};

/// The indexes of collections, by their namespaces.
#[derive(Debug, Default)]
pub(super) struct Indexes(BTreeMap<String, Vec<Document>>);

fn name(spec: &Document) -> &str {
    spec.get_str("name").unwrap_or_default()
}

impl Indexes {
    /// Adds an index, instead of the one with its name if there is one.
    pub(super) fn add(&mut self, namespace: &str, spec: Document) {
        let indexes = self.0.entry(namespace.to_owned()).or_default();
        indexes.retain(|other| name(other) != name(&spec));
        indexes.push(spec);
    }

    pub(super) fn drop_index(&mut self, namespace: &str, dropped: &str) {
        if let Some(indexes) = self.0.get_mut(namespace) {
            indexes.retain(|spec| dropped != "*" && name(spec) != dropped);
        }
    }

    /// Changes an index as `index` of `collMod` says.
    pub(super) fn modify(&mut self, namespace: &str, change: &Document) {
        let is_it = |spec: &Document| match change.get_document("keyPattern") {
            Ok(key) => spec.get_document("key").is_ok_and(|own| own == key),
            Err(_) => name(spec) == name(change),
        };
        for spec in self.0.get_mut(namespace).into_iter().flatten().filter(|spec| is_it(spec)) {
            for (field, value) in change {
                match (field.as_str(), value) {
                    ("name" | "keyPattern", _) => {}
                    ("hidden" | "prepareUnique", Bson::Boolean(false)) => drop(spec.remove(field)),
                    _ => drop(spec.insert(field, value.clone())),
                }
            }
        }
    }

    pub(super) fn drop_collection(&mut self, namespace: &str) {
        self.0.remove(namespace);
    }

    pub(super) fn drop_database(&mut self, database: &str) {
        self.0.retain(|namespace, _| namespace.split_once('.').is_none_or(|(of, _)| of != database));
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        // A collection that had that name was dropped.
        self.0.remove(to);
        if let Some(indexes) = self.0.remove(from) {
            self.0.insert(to.to_owned(), indexes);
        }
    }
}

impl IntoIterator for Indexes {
    type Item = (String, Vec<Document>);
    type IntoIter = std::collections::btree_map::IntoIter<String, Vec<Document>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn entries_change_the_indexes_that_are_to_be_created() {
        let mut indexes = Indexes::default();
        let spec = |name: &str| doc! { "name": name, "key": { name: 1 } };
        for name in ["a", "b", "c"] {
            indexes.add("d.x", spec(name));
        }
        indexes.add("d.x", doc! { "name": "b", "key": { "other": 1 } });
        indexes.add("d.y", spec("a"));
        indexes.add("e.x", spec("a"));
        indexes.add("dd.x", spec("a"));
        indexes.drop_index("d.x", "c");
        indexes.modify("d.x", &doc! { "name": "b", "hidden": true, "expireAfterSeconds": 5 });
        indexes.modify("d.x", &doc! { "keyPattern": { "a": 1 }, "hidden": true });
        indexes.modify("d.x", &doc! { "name": "a", "hidden": false });
        indexes.rename("d.x", "e.x");
        indexes.drop_collection("e.none");
        indexes.drop_database("d");
        let b = doc! { "name": "b", "key": { "other": 1 }, "hidden": true, "expireAfterSeconds": 5 };
        let all: Vec<_> = indexes.into_iter().collect();
        assert_eq!(all, [("dd.x".to_owned(), vec![spec("a")]), ("e.x".to_owned(), vec![spec("a"), b])]);
    }
}
