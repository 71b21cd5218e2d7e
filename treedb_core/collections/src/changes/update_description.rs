//! The `updateDescription` of an update, as MongoDB has it: `{ updatedFields, removedFields, truncatedArrays }`, and the
//! `disambiguatedPaths` of those paths of which a part is a number or has a dot.

use bson::raw::{CString, cstr};
use bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};

use treedb_query::doc::write::Writer;
use treedb_query::doc::{Doc, Element, FieldsByName, Value};
use treedb_query::error::Result;

/// Collects the parts of the description.
struct Description {
    updated: Writer,
    removed: RawArrayBuf,
    truncated: RawArrayBuf,
    /// The path of the document being compared, with a dot at the end if it is not empty.
    path: String,
    /// Its parts: names, and positions in arrays.
    parts: Vec<RawBson>,
    /// The parts of the paths that are ambiguous as text.
    disambiguated: Vec<(String, RawArrayBuf)>,
}

/// The description of an update from `old` to `new`; with the parts of ambiguous paths if `disambiguates`.
pub(super) fn describe(old: Doc<'_>, new: Doc<'_>, disambiguates: bool) -> Result<RawDocumentBuf> {
    let mut description = Description {
        updated: Writer::new(64),
        removed: RawArrayBuf::new(),
        truncated: RawArrayBuf::new(),
        path: String::new(),
        parts: Vec::new(),
        disambiguated: Vec::new(),
    };
    description.documents(old, new);
    let Description { updated, removed, truncated, disambiguated, .. } = description;
    let mut described = rawdoc! {
        "updatedFields": updated.finish(),
        "removedFields": removed,
        "truncatedArrays": truncated,
    };
    if disambiguates {
        let mut paths = RawDocumentBuf::new();
        for (path, parts) in disambiguated {
            paths.append(CString::try_from(path)?, parts);
        }
        described.append(cstr!("disambiguatedPaths"), paths);
    }
    Ok(described)
}

impl Description {
    fn documents(&mut self, old: Doc<'_>, new: Doc<'_>) {
        // Usually the fields are in the same order.
        let (mut in_old, mut in_new) = (FieldsByName::new(old), FieldsByName::new(new));
        let mut parallel = old.elements();
        for element in new.elements() {
            let before = match parallel.next() {
                Some(before) if before.name == element.name => Some(before),
                _ => in_old.find(element.name),
            };
            match before {
                Some(before) => self.values(&before, &element, name_of(&element)),
                None => self.set(&element, name_of(&element)),
            }
        }
        let mut parallel = new.elements();
        for element in old.elements() {
            let there = parallel.next().is_some_and(|after| after.name == element.name);
            if !there && in_new.find(element.name).is_none() {
                let path = format!("{}{}", self.path, element.name_str());
                self.disambiguate(&path, Some(name_of(&element)));
                self.removed.push(path);
            }
        }
    }

    fn arrays(&mut self, old: Doc<'_>, new: Doc<'_>) {
        let mut before = old.elements();
        let mut len = 0_usize;
        for element in new.elements() {
            match before.next() {
                Some(before) => self.values(&before, &element, position(len)),
                None => self.set(&element, position(len)),
            }
            len += 1;
        }
        if before.next().is_some() {
            let field = self.path.strip_suffix('.').unwrap_or(&self.path).to_owned();
            self.disambiguate(&field, None);
            let size = i32::try_from(len).unwrap_or(i32::MAX);
            self.truncated.push(rawdoc! { "field": field, "newSize": size });
        }
    }

    fn values(&mut self, before: &Element<'_>, after: &Element<'_>, part: RawBson) {
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
                self.parts.push(part);
                self.documents(old, new);
                self.parts.pop();
                self.path.truncate(within);
            }
            (Value::Array(old), Value::Array(new)) if !old.is_empty() && !new.is_empty() => {
                enter(&mut self.path);
                self.parts.push(part);
                self.arrays(old, new);
                self.parts.pop();
                self.path.truncate(within);
            }
            _ => self.set(after, part),
        }
    }

    fn set(&mut self, element: &Element<'_>, part: RawBson) {
        let path = format!("{}{}", self.path, element.name_str());
        self.disambiguate(&path, Some(part));
        self.updated.put(path.as_bytes(), element);
    }
}

impl Description {
    /// Notes the parts of a path, which end with `last`, if it is ambiguous.
    fn disambiguate(&mut self, path: &str, last: Option<RawBson>) {
        let parts = self.parts.iter().cloned().chain(last);
        if !parts.clone().any(|part| is_ambiguous(&part)) {
            return;
        }
        let mut all = RawArrayBuf::new();
        parts.for_each(|part| all.push(part));
        self.disambiguated.push((path.to_owned(), all));
    }
}

fn name_of(element: &Element<'_>) -> RawBson {
    RawBson::String(element.name_str().to_owned())
}

fn position(at: usize) -> RawBson {
    RawBson::Int32(i32::try_from(at).unwrap_or(i32::MAX))
}

fn is_ambiguous(part: &RawBson) -> bool {
    match part {
        RawBson::String(name) => name.contains('.') || name.bytes().all(|byte| byte.is_ascii_digit()),
        _ => true,
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
            let described = describe(Doc::from(&raw(&old)), Doc::from(&raw(&new)), false).unwrap();
            let expected =
                doc! { "updatedFields": updated, "removedFields": removed, "truncatedArrays": truncated };
            assert_eq!(Document::try_from(&*described).unwrap(), expected, "{old} -> {new}");
        }
    }

    #[test]
    fn paths_with_numbers_or_dots_are_told_apart() {
        let raw = |doc: &Document| RawDocumentBuf::try_from(doc).unwrap();
        let old = doc! { "a": [{ "b": 1 }], "c": { "0": 1, "d.e": 1 }, "f": { "g": 1 }, "h": [[1, 2]] };
        let new = doc! { "a": [{ "b": 2 }], "c": { "0": 2 }, "f": { "g": 2 }, "h": [[1]] };
        let described = describe(Doc::from(&raw(&old)), Doc::from(&raw(&new)), true).unwrap();
        let paths = Document::try_from(described.get_document("disambiguatedPaths").unwrap()).unwrap();
        let expected =
            doc! { "a.0.b": ["a", 0, "b"], "c.0": ["c", "0"], "c.d.e": ["c", "d.e"], "h.0": ["h", 0] };
        assert_eq!(paths, expected);
        let plain =
            describe(Doc::from(&raw(&doc! { "a": 1 })), Doc::from(&raw(&doc! { "a": 2 })), true).unwrap();
        assert!(plain.get_document("disambiguatedPaths").unwrap().is_empty());
    }
}
