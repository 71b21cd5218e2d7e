//! The difference of two versions of a document as MongoDB's oplog has it, `{ $v: 2, diff: .. }`.
//!
//! | part | of a document | of an array |
//! |---|---|---|
//! | `a: true` | | it is one |
//! | `l` | | the new length, if it is shorter |
//! | `u` | fields with new values | `u3`: the new value at 3 |
//! | `i` | new fields, which come last | |
//! | `d` | removed fields | |
//! | `s` and a name | the difference within that field | `s3`: that at 3 |

use bson::RawDocumentBuf;

use treedb_query::doc::write::Writer;
use treedb_query::doc::{Doc, Element, FieldsByName, Value};

/// The difference; `None` if the fields of `new` are in an order that a difference cannot say.
pub(super) fn document_diff(old: Doc<'_>, new: Doc<'_>) -> Option<RawDocumentBuf> {
    let mut out = Writer::new(64);
    within_document(old, new, &mut out)?;
    Some(out.finish())
}

fn is_same(a: &Element<'_>, b: &Element<'_>) -> bool {
    a.kind == b.kind && a.bytes == b.bytes
}

/// What has become of one value: a difference within it, or another value.
fn within_value(old: &Element<'_>, new: &Element<'_>) -> Option<RawDocumentBuf> {
    let mut out = Writer::new(64);
    match (old.value(), new.value()) {
        (Value::Document(old), Value::Document(new)) => within_document(old, new, &mut out)?,
        (Value::Array(old), Value::Array(new)) => within_array(old, new, &mut out),
        _ => return None,
    }
    let difference = out.finish();
    // Whole values are easier to read than long differences.
    (difference.as_bytes().len() < new.bytes.len()).then_some(difference)
}

fn within_document(old: Doc<'_>, new: Doc<'_>, out: &mut Writer) -> Option<()> {
    let (mut in_new, mut removed) = (FieldsByName::new(new), Vec::new());
    // Usually the fields are in the same order.
    let mut parallel = new.elements().peekable();
    let mut kept = old.elements().filter(|field| {
        let name = field.name;
        let is_kept = parallel.next_if(|after| after.name == name).is_some() || in_new.find(name).is_some();
        if !is_kept {
            removed.push(name);
        }
        is_kept
    });
    let (mut updated, mut inserted, mut parts) = (Writer::new(64), Writer::new(64), Vec::new());
    let (mut updates, mut inserts) = (false, false);
    for field in new.elements() {
        match kept.next() {
            Some(before) if before.name != field.name => return None,
            Some(before) if is_same(&before, &field) => {}
            Some(before) => match within_value(&before, &field) {
                Some(part) => parts.push((field.name, part)),
                None => {
                    updated.copy(&field);
                    updates = true;
                }
            },
            None => {
                inserted.copy(&field);
                inserts = true;
            }
        }
    }
    kept.for_each(drop);
    if !removed.is_empty() {
        let open = out.open_document(b"d");
        removed.iter().for_each(|name| out.value(name, Value::Bool(false)));
        out.close(open);
    }
    for (name, there, fields) in [(b"u", updates, updated), (b"i", inserts, inserted)] {
        if there {
            out.value(name, Value::Document(Doc::from(&fields.finish())));
        }
    }
    for (name, part) in parts {
        out.value(&[b"s", name].concat(), Value::Document(Doc::from(&part)));
    }
    Some(())
}

fn within_array(old: Doc<'_>, new: Doc<'_>, out: &mut Writer) {
    out.value(b"a", Value::Bool(true));
    let (before, after) = (old.elements().count(), new.elements().count());
    if after < before {
        out.value(b"l", Value::Int32(i32::try_from(after).unwrap_or(i32::MAX)));
    }
    let mut earlier = old.elements();
    for (at, element) in new.elements().enumerate() {
        let part = match earlier.next() {
            Some(before) if is_same(&before, &element) => continue,
            Some(before) => within_value(&before, &element),
            None => None,
        };
        match part {
            Some(part) => out.value(format!("s{at}").as_bytes(), Value::Document(Doc::from(&part))),
            None => out.put(format!("u{at}").as_bytes(), &element),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bson::{Bson, Document, doc};
    use treedb_testing::{Rng, random_document};

    use super::*;

    /// Applies a difference, as those who read an oplog do.
    pub(in crate::changes) fn apply(old: &mut Document, diff: &Document) {
        for (name, part) in diff {
            match (name.as_str(), part) {
                ("d", Bson::Document(fields)) => fields.keys().for_each(|name| drop(old.remove(name))),
                ("u" | "i", Bson::Document(fields)) => old.extend(fields.clone()),
                (name, Bson::Document(part)) => {
                    apply_value(old.get_mut(name.strip_prefix('s').unwrap()).unwrap(), part);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn apply_value(old: &mut Bson, diff: &Document) {
        match old {
            Bson::Document(old) => apply(old, diff),
            Bson::Array(old) => {
                assert!(diff.get_bool("a").unwrap());
                if let Ok(len) = diff.get_i32("l") {
                    old.truncate(len as usize);
                }
                for (name, part) in diff {
                    let (kind, at) = name.split_at(1);
                    let Ok(at) = at.parse::<usize>() else { continue };
                    match kind {
                        "u" if at == old.len() => old.push(part.clone()),
                        "u" => old[at] = part.clone(),
                        _ => apply_value(&mut old[at], part.as_document().unwrap()),
                    }
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    #[test]
    fn a_difference_applied_to_the_old_version_gives_the_new_one() {
        let text = "a text that is longer than what a difference takes";
        let base = doc! { "a": 1, "b": { "c": text, "d": text, "e": [text, text, { "f": 1, "t": text }] } };
        let mut changed = base.clone();
        changed.insert("new", 1);
        let b = changed.get_document_mut("b").unwrap();
        b.remove("c");
        b.get_array_mut("e").unwrap()[2].as_document_mut().unwrap().insert("f", 2);
        let diff = document_diff(Doc::from(&raw(&base)), Doc::from(&raw(&changed))).unwrap();
        let diff = Document::try_from(&*diff).unwrap();
        let expected = doc! {
            "i": { "new": 1 },
            "sb": { "d": { "c": false }, "se": { "a": true, "s2": { "u": { "f": 2 } } } },
        };
        assert_eq!(diff, expected);
        let (mut dice, mut reordered) = (Rng::new(7), 0);
        for _ in 0..2000 {
            let old = Document::try_from(&*random_document(&mut dice, 4)).unwrap();
            let mut new = old.clone();
            for (name, value) in Document::try_from(&*random_document(&mut dice, 4)).unwrap() {
                new.insert(name, value);
            }
            let names: Vec<_> = new.keys().cloned().collect();
            for name in names.iter().filter(|_| dice.chance(20)) {
                new.remove(name);
            }
            match document_diff(Doc::from(&raw(&old)), Doc::from(&raw(&new))) {
                Some(diff) => {
                    let mut applied = old.clone();
                    apply(&mut applied, &Document::try_from(&*diff).unwrap());
                    assert_eq!(raw(&applied).as_bytes(), raw(&new).as_bytes(), "{old} -> {new}: {diff:?}");
                }
                None => reordered += 1,
            }
        }
        assert!(reordered < 1500, "{reordered} differences could not be said");
        let swapped = document_diff(
            Doc::from(&raw(&doc! { "a": 1, "b": 1 })),
            Doc::from(&raw(&doc! { "b": 1, "a": 1 })),
        );
        assert_eq!(swapped, None);
    }
}
