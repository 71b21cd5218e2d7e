//! Indexes that are created when a dump's documents are there and the entries of its oplog are replayed: in between, unique ones would
//! refuse documents that a later entry changes or deletes. What entries say of indexes changes these.

use std::collections::BTreeMap;

use bson::{Bson, Document};

/// The indexes of collections.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    by_namespace: BTreeMap<String, Vec<Document>>,
    /// The fields by which time series expire, by their namespaces.
    time_fields: BTreeMap<String, String>,
}

fn name(spec: &Document) -> &str {
    spec.get_str("name").unwrap_or_default()
}

impl Indexes {
    /// Notes that a collection with these options is a time series, if it is one.
    pub(super) fn note_series(&mut self, namespace: &str, options: &Document) {
        if let Ok(field) = options.get_document("timeseries").and_then(|series| series.get_str("timeField")) {
            self.time_fields.insert(namespace.to_owned(), field.to_owned());
        }
    }

    /// Changes the index through which a time series expires, as `expireAfterSeconds` of `collMod` says. No other has to follow it.
    pub(super) fn expire(&mut self, namespace: &str, after: &Bson) {
        let Some(field) = self.time_fields.get(namespace) else { return };
        let is_it = |spec: &Document| {
            let key = spec.get_document("key").ok();
            let ascending = key.and_then(|key| Some((key.len(), key.get(field)?)));
            let ascending = ascending.is_some_and(|(parts, order)| {
                parts == 1 && matches!(order, Bson::Int32(1) | Bson::Int64(1) | Bson::Double(1.0))
            });
            ascending && !spec.contains_key("partialFilterExpression")
        };
        for spec in self.by_namespace.get_mut(namespace).into_iter().flatten().filter(|spec| is_it(spec)) {
            match after {
                Bson::String(_) => drop(spec.remove("expireAfterSeconds")),
                _ => drop(spec.insert("expireAfterSeconds", after.clone())),
            }
        }
    }

    /// Adds an index, instead of the one with its name if there is one.
    pub(super) fn add(&mut self, namespace: &str, spec: Document) {
        let indexes = self.by_namespace.entry(namespace.to_owned()).or_default();
        indexes.retain(|other| name(other) != name(&spec));
        indexes.push(spec);
    }

    pub(super) fn drop_index(&mut self, namespace: &str, dropped: &str) {
        if let Some(indexes) = self.by_namespace.get_mut(namespace) {
            indexes.retain(|spec| dropped != "*" && name(spec) != dropped);
        }
    }

    /// Changes an index as `index` of `collMod` says.
    pub(super) fn modify(&mut self, namespace: &str, change: &Document) {
        let is_it = |spec: &Document| match change.get_document("keyPattern") {
            Ok(key) => spec.get_document("key").is_ok_and(|own| own == key),
            Err(_) => name(spec) == name(change),
        };
        for spec in self.by_namespace.get_mut(namespace).into_iter().flatten().filter(|spec| is_it(spec)) {
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
        self.by_namespace.remove(namespace);
        self.time_fields.remove(namespace);
    }

    pub(super) fn drop_database(&mut self, database: &str) {
        let is_of_another = |namespace: &str| namespace.split_once('.').is_none_or(|(of, _)| of != database);
        self.by_namespace.retain(|namespace, _| is_of_another(namespace));
        self.time_fields.retain(|namespace, _| is_of_another(namespace));
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        // A collection that had that name was dropped.
        self.drop_collection(to);
        if let Some(indexes) = self.by_namespace.remove(from) {
            self.by_namespace.insert(to.to_owned(), indexes);
        }
        if let Some(field) = self.time_fields.remove(from) {
            self.time_fields.insert(to.to_owned(), field);
        }
    }
}

impl IntoIterator for Indexes {
    type Item = (String, Vec<Document>);
    type IntoIter = std::collections::btree_map::IntoIter<String, Vec<Document>>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_namespace.into_iter()
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
        assert_eq!(indexes.time_fields.len(), 0);
        let all: Vec<_> = indexes.into_iter().collect();
        assert_eq!(all, [("dd.x".to_owned(), vec![spec("a")]), ("e.x".to_owned(), vec![spec("a"), b])]);
    }

    #[test]
    fn only_the_index_by_date_of_a_time_series_follows_when_it_expires() {
        let mut indexes = Indexes::default();
        indexes.note_series("d.series", &doc! { "timeseries": { "timeField": "at", "metaField": "m" } });
        indexes.note_series("d.clustered", &doc! { "clusteredIndex": { "key": { "_id": 1 } } });
        indexes.rename("d.series", "d.s");
        let spec = |name: &str, key: Document| doc! { "name": name, "key": key, "expireAfterSeconds": 100 };
        let others = [
            spec("compound", doc! { "at": 1, "n": 1 }),
            spec("descending", doc! { "at": -1 }),
            doc! { "name": "meta", "key": { "at": 1 }, "expireAfterSeconds": 5, "partialFilterExpression": { "m": 1 } },
        ];
        for other in &others {
            indexes.add("d.s", other.clone());
        }
        indexes.add("d.s", spec("at_1", doc! { "at": 1 }));
        indexes.add("d.clustered", spec("at_1", doc! { "at": 1 }));
        indexes.expire("d.clustered", &Bson::Int64(200));
        indexes.expire("d.s", &Bson::Int64(200));
        let of = |indexes: &Indexes, namespace: &str| indexes.by_namespace[namespace].clone();
        let by_date = doc! { "name": "at_1", "key": { "at": 1 }, "expireAfterSeconds": 200_i64 };
        assert_eq!(of(&indexes, "d.s"), [&others[..], &[by_date]].concat());
        assert_eq!(of(&indexes, "d.clustered"), [spec("at_1", doc! { "at": 1 })]);
        indexes.expire("d.s", &Bson::from("off"));
        assert_eq!(of(&indexes, "d.s").pop(), Some(doc! { "name": "at_1", "key": { "at": 1 } }));
    }
}
