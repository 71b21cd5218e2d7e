//! Updates fields in the encoded document; the other fields are copied unchanged.

use std::collections::HashSet;

use bson::{Document, RawDocument, RawDocumentBuf};

use crate::doc::by_name::FEW;
use crate::doc::write::Writer;
use crate::doc::{Doc, Element, FieldsByName};
use crate::error::Result;

use super::action::Action;
use super::path::Path;
use super::{FieldUpdate, Update, encode};

impl Update {
    /// The document after the update. `None` if the whole document has to be decoded: for positional paths,
    /// or if a field that the update reads or changes occurs twice.
    ///
    /// # Errors
    /// The errors of the actions.
    pub(super) fn patch(&self, fields: &[FieldUpdate], old: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        if fields.iter().any(|field| field.path.is_positional()) {
            return Ok(None);
        }
        let old = Doc::from(old);
        let names: Option<HashSet<&[u8]>> = (fields.len() > FEW).then(|| first_names(fields).collect());
        let is_affected = |element: &Element<'_>| is_affected(fields, names.as_ref(), element);
        let mut before = FieldsByName::new(old);
        let mut affected = Writer::new(64);
        for element in old.elements().filter(is_affected) {
            if before.find(element.name).is_some_and(|first| !std::ptr::eq(first.name, element.name)) {
                return Ok(None);
            }
            affected.copy(&element);
        }
        let changed = self.change(fields, Document::try_from(affected.finish())?, None, false)?;
        let changed = encode(&changed)?;
        let changed = Doc::from(&changed);
        let mut after = FieldsByName::new(changed);
        let mut new = Writer::new(old.as_bytes().len() + 64);
        for element in old.elements() {
            if !is_affected(&element) {
                new.copy(&element);
            } else if let Some(changed) = after.find(element.name) {
                new.copy(&changed);
            }
        }
        for added in changed.elements().filter(|element| before.find(element.name).is_none()) {
            new.copy(&added);
        }
        Ok(Some(new.finish()))
    }
}

/// The names of the top-level fields that the update reads or changes.
fn first_names(fields: &[FieldUpdate]) -> impl Iterator<Item = &[u8]> {
    fields.iter().flat_map(|field| {
        let from = match &field.action {
            Action::RenameFrom(from) => first_name(from),
            _ => None,
        };
        first_name(&field.path).into_iter().chain(from)
    })
}

fn first_name(path: &Path) -> Option<&[u8]> {
    path.parts().first().map(|first| first.as_bytes())
}

/// Whether the update reads or changes a top-level field; `names` are the [`first_names`] if there are many. True for `_id`, which error
/// messages contain.
fn is_affected(fields: &[FieldUpdate], names: Option<&HashSet<&[u8]>>, element: &Element<'_>) -> bool {
    element.name == b"_id"
        || match names {
            Some(names) => names.contains(element.name),
            None => first_names(fields).any(|name| name == element.name),
        }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc, rawdoc};
    use treedb_testing::{Rng, random_document, random_value};

    use super::*;
    use crate::query::Filter;
    use crate::query::update::Kind;

    #[test]
    fn patching_gives_the_same_document_as_updating_the_decoded_one() {
        let (mut rng, mut patched, mut changed) = (Rng::new(5), 0, 0);
        let filter = Filter::parse(&rawdoc! {}).unwrap();
        for round in 0..4000 {
            let name = ["a", "b", "a.b", "b.c.d", "c.1", "_id.a", "new", "a.new"][rng.below(8)];
            let to = ["b", "a", "moved", "b.moved"][rng.below(4)];
            let value = Bson::try_from(random_value(&mut rng, 2)).unwrap();
            let update = match round % 8 {
                0 => doc! { "$set": { name: value } },
                1 => doc! { "$set": { name: value.clone(), "z": value, "y": 1 } },
                2 => doc! { "$unset": { name: 1 } },
                3 => doc! { "$inc": { name: 3 }, "$set": { "x": 1.5 } },
                4 => doc! { "$rename": { name: to } },
                5 => doc! { "$push": { name: value } },
                6 => doc! { "$max": { name: value }, "$setOnInsert": { "never": 1 } },
                _ => doc! { "$pull": { name: { "$gt": 3 } } },
            };
            let update = RawDocumentBuf::try_from(&update).unwrap();
            let Ok(update) = Update::parse(&update) else { continue };
            let Kind::Fields(fields) = &update.kind else { continue };
            let old = random_document(&mut rng, 3);
            let decoded = update.apply_decoded(&old, &filter);
            match (update.patch(fields, &old), decoded) {
                (Ok(Some(patch)), Ok(decoded)) => {
                    assert_eq!(patch, decoded, "{update:?} of {old:?}");
                    patched += 1;
                    changed += i32::from(decoded.as_bytes() != old.as_bytes());
                }
                (Ok(None), _) => {}
                (Err(error), decoded) => {
                    let other = decoded.map(drop).unwrap_err();
                    assert_eq!((error.code, error.message), (other.code, other.message));
                }
                (Ok(Some(_)), Err(error)) => {
                    panic!("only updating the decoded document fails: {update:?}: {error}")
                }
            }
        }
        assert!(patched > 1000 && changed > 700, "{patched} {changed}");
    }

    #[test]
    fn a_field_that_occurs_twice_is_not_patched() {
        let mut twice = rawdoc! { "a": 1, "b": 2 };
        twice.append(bson::raw::cstr!("a"), 3);
        let update = Update::parse(&rawdoc! { "$set": { "a": 5 } }).unwrap();
        let Kind::Fields(fields) = &update.kind else { unreachable!("the update has operators") };
        assert_eq!(update.patch(fields, &twice).unwrap(), None);
        let other = Update::parse(&rawdoc! { "$set": { "b": 5 } }).unwrap();
        let Kind::Fields(fields) = &other.kind else { unreachable!("the update has operators") };
        assert!(other.patch(fields, &twice).unwrap().is_some());
    }
}
