//! Updates fields in the encoded document; the other fields are copied unchanged.

use bson::{Document, RawDocument, RawDocumentBuf};

use crate::doc::write::Writer;
use crate::doc::{Doc, Element};
use crate::error::Result;

use super::action::Action;
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
        let mut affected = Writer::new(64);
        for element in old.elements().filter(|element| is_affected(fields, element)) {
            if old.find(element.name).is_some_and(|first| !std::ptr::eq(first.name, element.name)) {
                return Ok(None);
            }
            affected.copy(&element);
        }
        let before = Document::try_from(affected.finish())?;
        let after = encode(&self.change(fields, before, None, false)?)?;
        let after = Doc::from(&after);
        let mut new = Writer::new(old.as_bytes().len() + 64);
        for element in old.elements() {
            if !is_affected(fields, &element) {
                new.copy(&element);
            } else if let Some(changed) = after.find(element.name) {
                new.copy(&changed);
            }
        }
        for added in after.elements().filter(|element| old.find(element.name).is_none()) {
            new.copy(&added);
        }
        Ok(Some(new.finish()))
    }
}

/// Whether the update reads or changes a top-level field. True for `_id`, which error messages contain.
fn is_affected(fields: &[FieldUpdate], element: &Element<'_>) -> bool {
    let starts_with_field =
        |path: &super::path::Path| path.parts().first().is_some_and(|first| first.as_bytes() == element.name);
    element.name == b"_id"
        || fields.iter().any(|field| {
            starts_with_field(&field.path)
                || matches!(&field.action, Action::RenameFrom(from) if starts_with_field(from))
        })
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
