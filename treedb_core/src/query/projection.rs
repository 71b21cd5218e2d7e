//! Projections: which fields of a found document are handed out.
//!
//! Either the fields to keep or the fields to leave out, `_id` by its own rule; dotted paths reach into documents
//! and into the documents of arrays. The fields that stay keep the document's order.

use bson::{RawDocument, RawDocumentBuf};

use crate::code::{ErrorCode, QueryError, Result};
use crate::doc::write::Writer;
use crate::doc::{Doc, Element, MAX_DEPTH, Value, validate};

/// A parsed projection.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// True if the named fields are kept, false if they are left out.
    keep: bool,
    fields: Fields,
    /// Whether `_id` is handed out.
    id: bool,
}

/// The fields a projection names at one level of a document.
#[derive(Debug, Clone, PartialEq, Default)]
struct Fields(Vec<(String, Named)>);

#[derive(Debug, Clone, PartialEq)]
enum Named {
    Whole,
    Part(Fields),
}

impl Fields {
    fn find(&self, name: &[u8]) -> Option<&Named> {
        self.0.iter().find(|(field, _)| field.as_bytes() == name).map(|(_, named)| named)
    }

    /// Adds a path; `PathCollision` if it is there already, whole or in part.
    fn add(&mut self, path: &str, full: &str) -> Result<()> {
        let collision = |rest: &str| {
            Err(QueryError::new(
                ErrorCode::Location31249,
                format!("Path collision at {full} remaining portion {rest}"),
            ))
        };
        let (name, rest) = match path.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        if name.is_empty() {
            return Err(QueryError::new(
                ErrorCode::Location40352,
                format!("FieldPath '{full}' has an empty field name"),
            ));
        }
        match (self.0.iter_mut().find(|(field, _)| field == name), rest) {
            (None, None) => self.0.push((name.to_owned(), Named::Whole)),
            (None, Some(rest)) => {
                let mut inner = Fields::default();
                inner.add(rest, full)?;
                self.0.push((name.to_owned(), Named::Part(inner)));
            }
            (Some((_, Named::Part(inner))), Some(rest)) => inner.add(rest, full)?,
            (Some(_), rest) => return collision(rest.unwrap_or(path)),
        }
        Ok(())
    }
}

impl Projection {
    /// Reads a projection; an empty one is `None`: the whole document.
    ///
    /// # Errors
    /// `Location31253`/`31254` if fields to keep and to leave out are mixed, `Location31249` if paths overlap,
    /// `BadValue` for operators and computed fields.
    pub fn parse(projection: &RawDocument) -> Result<Option<Self>> {
        validate(projection.as_bytes())?;
        let mut paths = Vec::new();
        collect(Doc::from(projection), "", &mut paths)?;
        let id = paths.iter().find(|(path, _)| path == "_id").map(|(_, keep)| *keep);
        paths.retain(|(path, _)| path != "_id");
        let keep = match paths.first() {
            Some((_, keep)) => *keep,
            None => match id {
                Some(id) => id,
                None => return Ok(None),
            },
        };
        let mut fields = Fields::default();
        for (path, kept) in &paths {
            if *kept != keep {
                let (code, what) = if keep {
                    (
                        ErrorCode::Location31254,
                        format!("Cannot do exclusion on field {path} in inclusion projection"),
                    )
                } else {
                    (
                        ErrorCode::Location31253,
                        format!("Cannot do inclusion on field {path} in exclusion projection"),
                    )
                };
                return Err(QueryError::new(code, what));
            }
            fields.add(path, path)?;
        }
        Ok(Some(Projection { keep, fields, id: id.unwrap_or(true) }))
    }

    /// The part of `document` that is handed out.
    pub fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let mut out = Writer::new(document.as_bytes().len());
        for element in Doc::from(document).elements() {
            // Only a whole `_id` has a rule of its own; `_id.x` is a path like any other.
            if element.name == b"_id" && self.fields.find(b"_id").is_none() {
                if self.id {
                    out.copy(&element);
                }
                continue;
            }
            self.field(&mut out, &element, &self.fields);
        }
        Ok(out.finish())
    }

    /// Writes what `fields` leave of an element: of a document its fields, of an array its elements, of anything
    /// else itself or nothing. `name` is the element's name or its new position.
    fn part(&self, out: &mut Writer, name: &[u8], element: &Element<'_>, fields: &Fields) {
        match element.value() {
            Value::Document(inner) => {
                let open = out.open_document(name);
                for element in inner.elements() {
                    self.field(out, &element, fields);
                }
                out.close(open);
            }
            Value::Array(inner) => {
                let open = out.open_array(name);
                let nested =
                    |element: &Element<'_>| matches!(element.value(), Value::Document(_) | Value::Array(_));
                let stays = inner.elements().filter(|element| !self.keep || nested(element));
                for (at, element) in stays.enumerate() {
                    self.part(out, at.to_string().as_bytes(), &element, fields);
                }
                out.close(open);
            }
            _ if self.keep => {}
            _ => out.put(name, element),
        }
    }

    /// Writes what is left of one field of a document.
    fn field(&self, out: &mut Writer, element: &Element<'_>, fields: &Fields) {
        match (fields.find(element.name), self.keep) {
            (Some(Named::Whole), true) | (None, false) => out.copy(element),
            (Some(Named::Whole), false) | (None, true) => {}
            (Some(Named::Part(inner)), _) => self.part(out, element.name, element, inner),
        }
    }
}

/// The paths of a projection with whether each is kept; a nested document is the dotted paths it holds.
fn collect(projection: Doc<'_>, prefix: &str, paths: &mut Vec<(String, bool)>) -> Result<()> {
    for element in projection.elements() {
        let path = format!("{prefix}{}", element.name_str());
        if let Some(operator) = element.name_str().strip_prefix('$') {
            return Err(QueryError::bad_value(format!(
                "unknown projection operator ${operator} on field '{prefix}'"
            )));
        }
        if path.split('.').any(|part| part.starts_with('$')) {
            return Err(QueryError::bad_value(format!("positional projection '{path}' is not supported")));
        }
        // No document is deeper, and a path is walked part by part.
        if path.split('.').count() > MAX_DEPTH {
            return Err(QueryError::new(
                ErrorCode::Overflow,
                format!("the projection path '{path:.40}...' has more than {MAX_DEPTH} parts"),
            ));
        }
        match element.value() {
            Value::Document(inner) if !inner.is_empty() => collect(inner, &format!("{path}."), paths)?,
            value if value.is_number() || matches!(value, Value::Bool(_)) => {
                paths.push((path, value.truthy()))
            }
            value => {
                return Err(QueryError::bad_value(format!(
                    "projection of field '{path}' must be 0 or 1, found a value of type {}: computed fields are not \
                     supported",
                    value.type_name()
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    fn project(projection: Document, document: Document) -> Result<Document> {
        let raw = |d: Document| RawDocumentBuf::try_from(&d).unwrap();
        let projected = match Projection::parse(&raw(projection))? {
            Some(projection) => projection.apply(&raw(document))?,
            None => raw(document),
        };
        Ok(Document::try_from(&*projected).unwrap())
    }

    fn film() -> Document {
        doc! { "_id": 1, "title": "Alien", "cast": [ { "name": "Weaver", "role": "Ripley" }, "extras", [ { "name": "Holm" } ] ],
        "by": { "name": "Scott", "born": 1937 }, "year": 1979 }
    }

    #[test]
    fn kept_fields_come_in_the_documents_order_with_the_id() {
        assert_eq!(
            project(doc! { "year": 1, "title": true }, film()).unwrap(),
            doc! { "_id": 1, "title": "Alien", "year": 1979 }
        );
        assert_eq!(project(doc! { "year": 1, "_id": 0 }, film()).unwrap(), doc! { "year": 1979 });
        assert_eq!(project(doc! { "_id": 1 }, film()).unwrap(), doc! { "_id": 1 });
        assert_eq!(project(doc! { "nothing": 1 }, film()).unwrap(), doc! { "_id": 1 });
    }

    #[test]
    fn left_out_fields_leave_the_rest_as_it_is() {
        assert_eq!(
            project(doc! { "cast": 0, "by.born": 0 }, film()).unwrap(),
            doc! { "_id": 1, "title": "Alien", "by": { "name": "Scott" }, "year": 1979 }
        );
        let mut without_id = film();
        without_id.remove("_id");
        assert_eq!(project(doc! { "_id": 0 }, film()).unwrap(), without_id);
        assert_eq!(project(doc! {}, film()).unwrap(), film());
    }

    #[test]
    fn paths_reach_into_the_documents_of_arrays() {
        assert_eq!(
            project(doc! { "cast.name": 1, "_id": 0 }, film()).unwrap(),
            doc! { "cast": [ { "name": "Weaver" }, [ { "name": "Holm" } ] ] }
        );
        assert_eq!(
            project(doc! { "cast.name": 0, "by": 0, "title": 0 }, film()).unwrap(),
            doc! { "_id": 1, "cast": [ { "role": "Ripley" }, "extras", [ {} ] ], "year": 1979 }
        );
        assert_eq!(
            project(doc! { "title.x": 1, "by": { "name": 1 } }, film()).unwrap(),
            doc! { "_id": 1, "by": { "name": "Scott" } }
        );
        assert_eq!(project(doc! { "year.x": 0 }, film()).unwrap(), film());
    }

    #[test]
    fn mixed_and_overlapping_projections_are_refused() {
        let code = |projection: Document| project(projection, film()).unwrap_err().code;
        assert_eq!(code(doc! { "a": 1, "b": 0 }), ErrorCode::Location31254);
        assert_eq!(code(doc! { "a": 0, "b": 1 }), ErrorCode::Location31253);
        assert_eq!(code(doc! { "a": 1, "a.b": 1 }), ErrorCode::Location31249);
        assert_eq!(code(doc! { "a.b": 1, "a": 1 }), ErrorCode::Location31249);
        assert_eq!(code(doc! { "a..b": 1 }), ErrorCode::Location40352);
        assert_eq!(code(doc! { "a": "$b" }), ErrorCode::BadValue);
        assert_eq!(code(doc! { "a": { "$slice": 1 } }), ErrorCode::BadValue);
        assert_eq!(code(doc! { vec!["a"; 5_000_000].join("."): 1 }), ErrorCode::Overflow);
    }
}
