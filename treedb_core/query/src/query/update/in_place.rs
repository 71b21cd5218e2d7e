//! Changes fields in the bytes of a document; the other fields are copied unchanged.

use bson::{Document, RawDocument, RawDocumentBuf};

use crate::doc::write::Writer;
use crate::doc::{Doc, Element};
use crate::error::Result;

use super::action::Action;
use super::{FieldUpdate, Update, encode};

impl Update {
    /// What changing fields makes of `old`; `None` where that takes all of it: for positional paths, or if a field that is
    /// changed is there twice.
    ///
    /// # Errors
    /// Those of the changes.
    pub(super) fn patch(&self, fields: &[FieldUpdate], old: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        if fields.iter().any(|field| field.path.is_positional()) {
            return Ok(None);
        }
        let old = Doc::from(old);
        let mut few = Writer::new(64);
        for element in old.elements().filter(|element| is_concerned(fields, element)) {
            if old.find(element.name).is_some_and(|first| !std::ptr::eq(first.name, element.name)) {
                return Ok(None);
            }
            few.copy(&element);
        }
        let before = Document::try_from(few.finish())?;
        let after = encode(&self.change(fields, &before, None, false)?)?;
        let after = Doc::from(&after);
        let mut new = Writer::new(old.as_bytes().len() + 64);
        for element in old.elements() {
            if !is_concerned(fields, &element) {
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

/// Whether a field of the document is one that changes, or that they look at: `_id` always, for what errors say.
fn is_concerned(fields: &[FieldUpdate], element: &Element<'_>) -> bool {
    let leads =
        |path: &super::path::Path| path.parts().first().is_some_and(|first| first.as_bytes() == element.name);
    element.name == b"_id"
        || fields.iter().any(|field| {
            leads(&field.path) || matches!(&field.action, Action::RenameFrom(from) if leads(from))
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
    fn a_patch_is_what_the_whole_document_becomes() {
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
            let whole = update.whole(&old, &filter);
            match (update.patch(fields, &old), whole) {
                (Ok(Some(patch)), Ok(whole)) => {
                    assert_eq!(patch, whole, "{update:?} of {old:?}");
                    patched += 1;
                    changed += i32::from(whole.as_bytes() != old.as_bytes());
                }
                (Ok(None), _) => {}
                (Err(error), whole) => {
                    let other = whole.map(drop).unwrap_err();
                    assert_eq!((error.code, error.message), (other.code, other.message));
                }
                (Ok(Some(_)), Err(error)) => panic!("only the whole document refuses {update:?}: {error}"),
            }
        }
        assert!(patched > 1000 && changed > 700, "{patched} {changed}");
    }

    #[test]
    fn a_field_that_is_there_twice_is_left_to_the_whole_document() {
        let mut twice = rawdoc! { "a": 1, "b": 2 };
        twice.append(bson::raw::cstr!("a"), 3);
        let update = Update::parse(&rawdoc! { "$set": { "a": 5 } }).unwrap();
        let Kind::Fields(fields) = &update.kind else { unreachable!("it is operators") };
        assert_eq!(update.patch(fields, &twice).unwrap(), None);
        let other = Update::parse(&rawdoc! { "$set": { "b": 5 } }).unwrap();
        let Kind::Fields(fields) = &other.kind else { unreachable!("it is operators") };
        assert!(other.patch(fields, &twice).unwrap().is_some());
    }
}
