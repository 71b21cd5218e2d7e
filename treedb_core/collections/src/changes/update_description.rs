//! The `updateDescription` of an update, as MongoDB has it: `{ updatedFields, removedFields, truncatedArrays }`.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

use treedb_query::doc::write::Writer;
use treedb_query::doc::{Doc, Element, Value};
use treedb_query::error::Result;

/// Collects the parts of the description.
struct Description {
    updated: Writer,
    removed: RawArrayBuf,
    truncated: RawArrayBuf,
    /// The path of the document being compared, with a dot at the end if it is not empty.
    path: String,
}

/// The description of an update from `old` to `new`.
pub(super) fn describe(old: Doc<'_>, new: Doc<'_>) -> Result<RawDocumentBuf> {
    let mut description = Description {
        updated: Writer::new(64),
        removed: RawArrayBuf::new(),
        truncated: RawArrayBuf::new(),
        path: String::new(),
    };
    description.documents(old, new);
    let Description { updated, removed, truncated, .. } = description;
    Ok(rawdoc! {
        "updatedFields": updated.finish(),
        "removedFields": removed,
        "truncatedArrays": truncated,
    })
}

impl Description {
    fn documents(&mut self, old: Doc<'_>, new: Doc<'_>) {
        // Usually the fields are in the same order.
        let mut parallel = old.elements();
        for element in new.elements() {
            let before = match parallel.next() {
                Some(before) if before.name == element.name => Some(before),
                _ => old.find(element.name),
            };
            match before {
                Some(before) => self.values(&before, &element),
                None => self.set(&element),
            }
        }
        let mut parallel = new.elements();
        for element in old.elements() {
            let there = parallel.next().is_some_and(|after| after.name == element.name);
            if !there && new.find(element.name).is_none() {
                let path = format!("{}{}", self.path, element.name_str());
                self.removed.push(path);
            }
        }
    }

    fn arrays(&mut self, old: Doc<'_>, new: Doc<'_>) {
        let mut before = old.elements();
        let mut len = 0_usize;
        for element in new.elements() {
            match before.next() {
                Some(before) => self.values(&before, &element),
                None => self.set(&element),
            }
            len += 1;
        }
        if before.next().is_some() {
            let field = self.path.strip_suffix('.').unwrap_or(&self.path);
            let size = i32::try_from(len).unwrap_or(i32::MAX);
            self.truncated.push(rawdoc! { "field": field, "newSize": size });
        }
    }

    fn values(&mut self, before: &Element<'_>, after: &Element<'_>) {
        if before.kind == after.kind && before.bytes == after.bytes {
            return;
        }
        let within = self.path.len();
        let enter = |path: &mut String| {
            path.push_str(after.name_str());
            path.push('.');
        };
        match (before.value(), after.value()) {
            (Value::Document(old), Value::Document(new)) if !old.is_empty() && !new.is_empty() => {
                enter(&mut self.path);
                self.documents(old, new);
                self.path.truncate(within);
            }
            (Value::Array(old), Value::Array(new)) if !old.is_empty() && !new.is_empty() => {
                enter(&mut self.path);
                self.arrays(old, new);
                self.path.truncate(within);
            }
            _ => self.set(after),
        }
    }

    fn set(&mut self, element: &Element<'_>) {
        let path = format!("{}{}", self.path, element.name_str());
        self.updated.put(path.as_bytes(), element);
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    #[test]
    fn a_description_names_what_changed_by_path() {
        let cases = [
            (doc! { "n": 1 }, doc! { "n": 2 }, doc! { "n": 2 }, vec![], vec![]),
            (doc! { "a": 1, "b": 2 }, doc! { "b": 2, "c": 3 }, doc! { "c": 3 }, vec!["a"], vec![]),
            (
                doc! { "a": { "x": 1, "y": 2 } },
                doc! { "a": { "x": 1, "y": 3 } },
                doc! { "a.y": 3 },
                vec![],
                vec![],
            ),
            (doc! { "a": { "x": 1, "y": 2 } }, doc! { "a": { "x": 1 } }, doc! {}, vec!["a.y"], vec![]),
            (doc! { "a": { "x": 1 } }, doc! { "a": {} }, doc! { "a": {} }, vec![], vec![]),
            (doc! { "a": [1, 2] }, doc! { "a": [1, 2, 3] }, doc! { "a.2": 3 }, vec![], vec![]),
            (
                doc! { "a": [1, 2, 3] },
                doc! { "a": [1, 5] },
                doc! { "a.1": 5 },
                vec![],
                vec![doc! { "field": "a", "newSize": 2 }],
            ),
            (
                doc! { "a": [{ "x": [1, 2] }] },
                doc! { "a": [{ "x": [1] }] },
                doc! {},
                vec![],
                vec![doc! { "field": "a.0.x", "newSize": 1 }],
            ),
            (doc! { "a": 1 }, doc! { "a": "1" }, doc! { "a": "1" }, vec![], vec![]),
        ];
        for (old, new, updated, removed, truncated) in cases {
            let raw = |doc: &Document| RawDocumentBuf::try_from(doc).unwrap();
            let described = describe(Doc::from(&raw(&old)), Doc::from(&raw(&new))).unwrap();
            let expected =
                doc! { "updatedFields": updated, "removedFields": removed, "truncatedArrays": truncated };
            assert_eq!(Document::try_from(&*described).unwrap(), expected, "{old} -> {new}");
        }
    }
}
