//! [`Projection`]: the fields that a `find` returns.
//!
//! Either the fields to include or those to exclude, `_id` by a rule of its own; dotted paths reach into documents and
//! into documents in arrays. Fields stay in the document's order. A projection can return part of an array: `$slice`, the
//! first element that matches an `$elemMatch`, or with `path.$` the element that the query matched. Fields may also be computed
//! by expressions: then a [`Reshape`] makes the document, and parts of arrays are taken from what it made.

use bson::{RawDocument, RawDocumentBuf};

use crate::doc::by_name::ByName;
use crate::doc::path::is_dollar_prefixed;
use crate::doc::write::Writer;
use crate::doc::{Collation, Doc, Element, MAX_DEPTH, OwnedValue, Value, validate};
use crate::error::{ErrorCode, QueryError, Result};

use super::reshape::Reshape;
use super::used_fields::UsedFields;
use crate::query::expr::{Arena, Globals, Variables, check_names};
use crate::query::filter::Filter;

/// A parsed projection.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// True if the named fields are kept, false if they are left out.
    keep: bool,
    fields: Fields,
    /// Whether `_id` is returned.
    id: bool,
    positional: Option<Positional>,
    computed: Option<Box<Computed>>,
}

/// A projection with computed fields: the whole of it as a `$project`, but for the parts of arrays.
#[derive(Debug, Clone)]
struct Computed {
    reshape: Reshape,
    source: RawDocumentBuf,
    variables: Variables,
    globals: Globals,
}

impl PartialEq for Computed {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Computed {
    fn parse(source: RawDocumentBuf, variables: &Variables, collation: &Collation) -> Result<Self> {
        let mut stage = Writer::new(source.as_bytes().len() + 16);
        stage.value(b"$project", Value::Document(Doc::from(&source)));
        let stage = stage.finish();
        let reshape = Doc::from(&stage)
            .elements()
            .next()
            .map(|stage| Reshape::parse(&stage, &variables.names(collation)))
            .transpose()?
            .flatten()
            .ok_or_else(|| QueryError::bad_value("the projection is empty"))?;
        Ok(Computed { reshape, source, variables: variables.clone(), globals: variables.globals() })
    }
}

/// `path.$`: of the first array on the path only the element that the query matched by.
#[derive(Debug, Clone, PartialEq)]
struct Positional {
    path: Vec<String>,
    filter: Filter,
}

/// The fields a projection names at one level of a document.
#[derive(Debug, Clone, PartialEq, Default)]
struct Fields(ByName<Named>);

#[derive(Debug, Clone, PartialEq)]
enum Named {
    Whole,
    Part(Fields),
    Slice(Slice),
    /// The first element of the array that fits.
    ElemMatch(Filter),
}

/// Which elements of an array: `count` elements starting at `from`, which is counted from the end if
/// negative.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    from: i64,
    count: u64,
}

/// What a projection asks of one path.
#[derive(Debug, Clone, PartialEq)]
enum Wish {
    Keep(bool),
    Slice(Slice),
    ElemMatch(Filter),
    Positional,
    /// An expression or a literal.
    Compute(OwnedValue),
}

impl Fields {
    /// Adds a path; `PathCollision` if it is there already, whole or in part.
    fn add(&mut self, path: &str, full: &str, what: Named) -> Result<()> {
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
        check_names(full)?;
        match (self.0.find_mut(name.as_bytes()), rest) {
            (None, None) => self.0.push(name.to_owned(), what),
            (None, Some(rest)) => {
                let mut inner = Fields::default();
                inner.add(rest, full, what)?;
                self.0.push(name.to_owned(), Named::Part(inner));
            }
            (Some(Named::Part(inner)), Some(rest)) => inner.add(rest, full, what)?,
            (Some(_), rest) => return collision(rest.unwrap_or(path)),
        }
        Ok(())
    }
}

impl Fields {
    fn collated(self, collation: &Collation) -> Result<Self> {
        let collated = self.0.try_map(|named| {
            Ok::<_, QueryError>(match named {
                Named::Part(inner) => Named::Part(inner.collated(collation)?),
                Named::ElemMatch(filter) => Named::ElemMatch(filter.collated(collation)?),
                named => named,
            })
        });
        collated.map(Fields)
    }
}

impl Projection {
    /// The same fields, where strings that decide which elements of arrays are meant compare by `collation`.
    pub fn collated(self, collation: &Collation) -> Result<Self> {
        let positional = self.positional.map(|Positional { path, filter }| {
            Ok::<_, QueryError>(Positional { path, filter: filter.collated(collation)? })
        });
        let computed = self
            .computed
            .map(|computed| Computed::parse(computed.source, &computed.variables, collation).map(Box::new));
        Ok(Projection {
            fields: self.fields.collated(collation)?,
            positional: positional.transpose()?,
            computed: computed.transpose()?,
            ..self
        })
    }

    /// Reads a projection; an empty one is `None`: the whole document.
    ///
    /// # Errors
    /// `Location31253`/`31254` if fields to keep and to leave out are mixed, `Location31249` if paths overlap,
    /// `Location31252`/`31310` for computed fields among those to leave out; those of the expressions.
    pub fn parse(projection: &RawDocument) -> Result<Option<Self>> {
        Self::parse_for(projection, &Filter::all())
    }

    /// [`Self::parse`] for the documents that `filter` finds, which tells what the `$` of a path means.
    ///
    /// # Errors
    /// As there; `Location31276` for more than one `$`, `Location31395` for one among fields to leave out.
    pub fn parse_for(projection: &RawDocument, filter: &Filter) -> Result<Option<Self>> {
        Self::parse_with(projection, filter, Variables::NONE)
    }

    /// [`Self::parse_for`] of a projection whose expressions may use `variables`.
    ///
    /// # Errors
    /// As there.
    pub fn parse_with(
        projection: &RawDocument,
        filter: &Filter,
        variables: &Variables,
    ) -> Result<Option<Self>> {
        validate(projection.as_bytes())?;
        let mut wishes = Vec::new();
        collect(Doc::from(projection), "", &mut wishes)?;
        let id = wishes.iter().find_map(|(path, wish)| match wish {
            Wish::Keep(keep) if path == "_id" => Some(*keep),
            _ => None,
        });
        wishes.retain(|(path, wish)| path != "_id" || !matches!(wish, Wish::Keep(_)));
        let says = wishes.iter().find_map(|(_, wish)| match wish {
            Wish::Keep(keep) => Some(*keep),
            Wish::ElemMatch(_) | Wish::Positional | Wish::Compute(_) => Some(true),
            Wish::Slice(_) => None,
        });
        let keep = match says.or(id) {
            Some(keep) => keep,
            // A part of an array alone leaves the rest of the document as it is.
            None if !wishes.is_empty() => false,
            None => return Ok(None),
        };
        if wishes.iter().any(|(_, wish)| matches!(wish, Wish::Compute(_))) {
            return Self::computed(wishes, id, keep, filter, variables).map(Some);
        }
        let (mut fields, mut positional) = (Fields::default(), None);
        for (path, wish) in wishes {
            let named = match wish {
                Wish::Slice(slice) => Named::Slice(slice),
                Wish::Keep(kept) if kept == keep => Named::Whole,
                Wish::ElemMatch(filter) if keep => Named::ElemMatch(filter),
                Wish::Positional if keep => {
                    Positional::set(&mut positional, &path, filter)?;
                    Named::Whole
                }
                Wish::Positional => {
                    return Err(QueryError::new(
                        ErrorCode::Location31395,
                        format!("positional projection '{path}.$' cannot be used with exclusion"),
                    ));
                }
                _ => return Err(mixed(&path, keep)),
            };
            fields.add(&path, &path, named)?;
        }
        Ok(Some(Projection { keep, fields, id: id.unwrap_or(true), positional, computed: None }))
    }

    /// Whether fields are computed by expressions.
    pub(crate) fn has_computed_fields(&self) -> bool {
        self.computed.is_some()
    }

    /// The projection of `wishes` some of which are computed fields.
    fn computed(
        wishes: Vec<(String, Wish)>,
        id: Option<bool>,
        keep: bool,
        filter: &Filter,
        variables: &Variables,
    ) -> Result<Self> {
        let mut project = Writer::new(128);
        if let Some(id) = id {
            project.value(b"_id", Value::Bool(id));
        }
        let (mut fields, mut positional) = (Fields::default(), None);
        for (path, wish) in wishes {
            let mut part = None;
            match wish {
                Wish::Compute(value) if keep => {
                    project.value(path.as_bytes(), value.value());
                    continue;
                }
                Wish::Compute(value) => {
                    let (code, what) = match value.value() {
                        Value::Document(_) | Value::Array(_) | Value::String(_) => (
                            ErrorCode::Location31252,
                            "Cannot use expression other than $meta in exclusion projection",
                        ),
                        _ => {
                            (ErrorCode::Location31310, "Cannot use an expression in an exclusion projection")
                        }
                    };
                    return Err(QueryError::new(code, format!("{what} (field '{path}')")));
                }
                Wish::Keep(kept) if kept == keep => {}
                Wish::Keep(_) => return Err(mixed(&path, keep)),
                Wish::Slice(slice) => part = Some(Named::Slice(slice)),
                Wish::ElemMatch(filter) => part = Some(Named::ElemMatch(filter)),
                Wish::Positional => Positional::set(&mut positional, &path, filter)?,
            }
            project.value(path.as_bytes(), Value::Bool(true));
            if let Some(part) = part {
                fields.add(&path, &path, part)?;
            }
        }
        let computed = Computed::parse(project.finish(), variables, &Collation::Simple)?;
        Ok(Projection { keep: false, fields, id: true, positional, computed: Some(Box::new(computed)) })
    }

    /// The paths whose values are all that is returned, `_id` first if it is one of them; `None` if that is not a list
    /// of paths.
    pub(in crate::query) fn kept(&self) -> Option<Vec<String>> {
        fn collect(fields: &Fields, way: &str, paths: &mut Vec<String>) -> Option<()> {
            for (name, named) in fields.0.iter() {
                match named {
                    Named::Whole => paths.push(format!("{way}{name}")),
                    Named::Part(inner) => collect(inner, &format!("{way}{name}."), paths)?,
                    Named::Slice(_) | Named::ElemMatch(_) => return None,
                }
            }
            Some(())
        }
        if !self.keep || self.positional.is_some() || self.fields.0.find(b"_id").is_some() {
            return None;
        }
        let mut paths = Vec::new();
        if self.id {
            paths.push("_id".to_owned());
        }
        collect(&self.fields, "", &mut paths)?;
        Some(paths)
    }

    /// The top-level fields of a document that what is returned of it depends on, for documents that `filter` matches; `None` if it may be any.
    pub(in crate::query) fn used(&self, filter: &Filter) -> Option<UsedFields> {
        if self.positional.is_some() {
            return None;
        }
        let mut names = Vec::new();
        if let Some(computed) = &self.computed {
            let no_others = computed.reshape.reads(&mut names)?;
            return no_others.then(|| UsedFields::new(&names, filter));
        }
        let named = self.fields.0.iter().filter(|(_, named)| self.keep || matches!(named, Named::Whole));
        names.extend(named.map(|(name, _)| name.clone()));
        if self.id == self.keep {
            names.push("_id".to_owned());
        }
        match self.keep {
            true => Some(UsedFields::new(&names, filter)),
            false => (!names.is_empty()).then(|| UsedFields::all_but(&names, filter)),
        }
    }

    /// The part of `document` that is returned.
    ///
    /// # Errors
    /// `Location51246` if a `path.$` finds no element that the query matched by; `Location51156` if a pattern of an `$elemMatch` needs too
    /// many steps.
    pub fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        if let Some(computed) = &self.computed {
            let mut made = computed.reshape.apply(document, &computed.globals, &Arena::new())?;
            if let Some(Positional { path, filter }) = &self.positional {
                let mut out = Writer::new(made.as_bytes().len());
                only_matched(&mut out, Doc::from(&made), path, filter.position(document))?;
                made = out.finish();
            }
            return if self.fields.0.is_empty() { Ok(made) } else { self.part_of(&made) };
        }
        if let Some(Positional { path, filter }) = &self.positional {
            let mut out = Writer::new(document.as_bytes().len());
            only_matched(&mut out, Doc::from(document), path, filter.position(document))?;
            return self.part_of(&out.finish());
        }
        self.part_of(document)
    }

    fn part_of(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let mut out = Writer::new(document.as_bytes().len());
        for element in Doc::from(document).elements() {
            // Only a whole `_id` has a rule of its own; `_id.x` is a path like any other.
            if element.name == b"_id" && self.fields.0.find(b"_id").is_none() {
                if self.id {
                    out.copy(&element);
                }
                continue;
            }
            self.field(&mut out, &element, &self.fields)?;
        }
        Ok(out.finish())
    }

    /// Writes what `fields` leave of an element: of a document its fields, of an array its elements, of anything
    /// else itself or nothing. `name` is the element's name or its new position.
    fn part(&self, out: &mut Writer, name: &[u8], element: &Element<'_>, fields: &Fields) -> Result<()> {
        match element.value() {
            Value::Document(inner) => {
                let open = out.open_document(name);
                for element in inner.elements() {
                    self.field(out, &element, fields)?;
                }
                out.close(open);
            }
            Value::Array(inner) => {
                let open = out.open_array(name);
                let nested =
                    |element: &Element<'_>| matches!(element.value(), Value::Document(_) | Value::Array(_));
                let stays = inner.elements().filter(|element| !self.keep || nested(element));
                for (at, element) in stays.enumerate() {
                    self.part(out, at.to_string().as_bytes(), &element, fields)?;
                }
                out.close(open);
            }
            _ if self.keep => {}
            _ => out.put(name, element),
        }
        Ok(())
    }

    /// Writes what is left of one field of a document.
    fn field(&self, out: &mut Writer, element: &Element<'_>, fields: &Fields) -> Result<()> {
        match (fields.0.find(element.name), self.keep) {
            (Some(Named::Whole), true) | (None, false) => out.copy(element),
            (Some(Named::Whole), false) | (None, true) => {}
            (Some(Named::Part(inner)), _) => return self.part(out, element.name, element, inner),
            (Some(Named::Slice(slice)), _) => slice.apply(out, element),
            (Some(Named::ElemMatch(filter)), _) => {
                let fitting = filter.matching_element(element.value())?;
                if let (Some(at), Value::Array(array)) = (fitting, element.value())
                    && let Some(chosen) = array.at(at)
                {
                    let open = out.open_array(element.name);
                    out.put(b"0", &chosen);
                    out.close(open);
                }
            }
        }
        Ok(())
    }
}

impl Positional {
    /// Sets the projection's `path.$`.
    fn set(positional: &mut Option<Positional>, path: &str, filter: &Filter) -> Result<()> {
        if positional.is_some() {
            return Err(QueryError::new(
                ErrorCode::Location31276,
                "Cannot specify more than one positional projection per query.",
            ));
        }
        let path = path.split('.').map(str::to_owned).collect();
        *positional = Some(Positional { path, filter: filter.clone() });
        Ok(())
    }
}

impl Slice {
    /// Reads the operand of `$slice`: a number of elements, or `[from, number]`.
    fn parse(path: &str, value: Value<'_>) -> Result<Self> {
        let refused = |code: ErrorCode, what: &str| {
            Err(QueryError::new(code, format!("$slice of field '{path}' {what}")))
        };
        // Numbers with a fraction are cut, as everywhere where a count is asked for.
        let whole = |value: Value<'_>| match value {
            Value::Double(number) => Some(number as i64),
            value => value.as_integer(),
        };
        match value {
            Value::Array(array) => {
                let numbers: Vec<Option<i64>> = array.elements().map(|one| whole(one.value())).collect();
                match numbers.as_slice() {
                    [Some(from), Some(count)] if *count > 0 => {
                        Ok(Slice { from: *from, count: count.unsigned_abs() })
                    }
                    [Some(_), Some(_)] => refused(ErrorCode::Location28724, "must have a positive limit"),
                    _ => refused(ErrorCode::Location28667, "must be [skip, limit], two numbers"),
                }
            }
            value => match whole(value) {
                Some(count) if count >= 0 => Ok(Slice { from: 0, count: count.unsigned_abs() }),
                Some(back) => Ok(Slice { from: back, count: u64::MAX }),
                None => refused(ErrorCode::Location28667, "must be a number or [skip, limit]"),
            },
        }
    }

    /// Writes these elements of an array; of anything else all.
    fn apply(self, out: &mut Writer, element: &Element<'_>) {
        let Value::Array(array) = element.value() else { return out.copy(element) };
        let at = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let from = match u64::try_from(self.from) {
            Ok(from) => at(from),
            Err(_) => array.elements().count().saturating_sub(at(self.from.unsigned_abs())),
        };
        let open = out.open_array(element.name);
        for (number, chosen) in array.elements().skip(from).take(at(self.count)).enumerate() {
            out.put(number.to_string().as_bytes(), &chosen);
        }
        out.close(open);
    }
}

fn mixed(path: &str, keep: bool) -> QueryError {
    let (code, what) = if keep {
        (ErrorCode::Location31254, format!("Cannot do exclusion on field {path} in inclusion projection"))
    } else {
        (ErrorCode::Location31253, format!("Cannot do inclusion on field {path} in exclusion projection"))
    };
    QueryError::new(code, what)
}

/// Copies a document, of the first array on `path` only the element at `matched`.
fn only_matched(out: &mut Writer, doc: Doc<'_>, path: &[String], matched: Option<usize>) -> Result<()> {
    let first = path.first().map_or(&b""[..], |name| name.as_bytes());
    for element in doc.elements() {
        match element.value() {
            Value::Document(inner) if element.name == first => {
                let open = out.open_document(element.name);
                only_matched(out, inner, path.get(1..).unwrap_or_default(), matched)?;
                out.close(open);
            }
            Value::Array(array) if element.name == first => {
                let Some(chosen) = matched.and_then(|at| array.at(at)) else {
                    return Err(QueryError::new(
                        ErrorCode::Location51246,
                        "positional operator '.$' couldn't find a matching element in the array",
                    ));
                };
                let open = out.open_array(element.name);
                out.put(b"0", &chosen);
                out.close(open);
            }
            _ => out.copy(&element),
        }
    }
    Ok(())
}

/// The paths of a projection with what it asks of each; a nested document is the dotted paths it holds.
fn collect(projection: Doc<'_>, prefix: &str, wishes: &mut Vec<(String, Wish)>) -> Result<()> {
    for element in projection.elements() {
        let name = element.name_str();
        let operators = match element.value() {
            Value::Document(inner) => inner.operator(),
            _ => None,
        };
        if name.starts_with('$') {
            return Err(QueryError::bad_value(format!(
                "unknown projection operator {name} on field '{prefix}'"
            )));
        }
        let path = format!("{prefix}{name}");
        let (path, positional) = match path.strip_suffix(".$") {
            Some(path) => (path.to_owned(), true),
            None => (path, false),
        };
        if path.split('.').any(is_dollar_prefixed) {
            return Err(QueryError::new(
                ErrorCode::Location31394,
                "As of 4.4, it's illegal to specify positional operator in the middle of a path. Positional projection \
                 may only be used at the end, for example: a.b.$",
            ));
        }
        // No document is deeper, and a path is walked part by part.
        if path.split('.').count() > MAX_DEPTH {
            return Err(QueryError::new(
                ErrorCode::Overflow,
                format!("the projection path '{path:.40}...' has more than {MAX_DEPTH} parts"),
            ));
        }
        let wish = match (element.value(), operators) {
            (value, Some(operator)) if !positional => match operator.name {
                b"$slice" if matches!(operator.value(), Value::Array(array) if array.elements().count() > 2 || has_expression(array)) => {
                    Wish::Compute(OwnedValue::from_value(value))
                }
                b"$slice" | b"$elemMatch" => part_of_array(&path, &element, &operator)?,
                _ => Wish::Compute(OwnedValue::from_value(value)),
            },
            (Value::Document(inner), None) if inner.is_empty() && !positional => {
                return Err(QueryError::new(
                    ErrorCode::Location51270,
                    format!(
                        "An empty sub-projection is not a valid value. Found empty object at path {path}"
                    ),
                ));
            }
            (Value::Document(inner), None) if !inner.is_empty() && !positional => {
                collect(inner, &format!("{path}."), wishes)?;
                continue;
            }
            (value, _) if value.is_number() || matches!(value, Value::Bool(_)) => {
                match (positional, value.truthy()) {
                    (true, true) => Wish::Positional,
                    (_, keep) => Wish::Keep(keep),
                }
            }
            (_, _) if positional => {
                return Err(QueryError::new(
                    ErrorCode::Location31271,
                    format!("positional projection cannot be used with a literal (field '{path}.$')"),
                ));
            }
            (value, _) => Wish::Compute(OwnedValue::from_value(value)),
        };
        wishes.push((path, wish));
    }
    Ok(())
}

/// True if an operand of `$slice` is more than a number: it is the operator of expressions then, over an array of its own.
fn has_expression(operands: Doc<'_>) -> bool {
    operands.elements().next().is_some_and(|first| !first.value().is_number())
}

/// `$slice` or `$elemMatch`, the value of `element`.
fn part_of_array(path: &str, element: &Element<'_>, operator: &Element<'_>) -> Result<Wish> {
    match operator.name {
        b"$slice" => Slice::parse(path, operator.value()).map(Wish::Slice),
        b"$elemMatch" if path.contains('.') => Err(QueryError::new(
            ErrorCode::Location31255,
            format!("Cannot use $elemMatch projection on a nested field (field '{path}')"),
        )),
        b"$elemMatch" => {
            let mut condition = Writer::new(element.bytes.len() + 16);
            condition.put(path.as_bytes(), element);
            Filter::parse(&condition.finish()).map(Wish::ElemMatch)
        }
        _ => Err(QueryError::new(
            ErrorCode::Location31325,
            format!("Unknown expression {} (field '{path}')", operator.name_str()),
        )),
    }
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
        assert_eq!(code(doc! { "a..b": 1 }), ErrorCode::Location15998);
        assert_eq!(code(doc! { "a": "$b", "c": 0 }), ErrorCode::Location31254);
        assert_eq!(code(doc! { "c": 0, "a": "$b" }), ErrorCode::Location31252);
        assert_eq!(code(doc! { "c": 0, "a": bson::Bson::Null }), ErrorCode::Location31310);
        assert_eq!(code(doc! { "a": {} }), ErrorCode::Location51270);
        assert_eq!(code(doc! { "a.$": "x" }), ErrorCode::Location31271);
        assert_eq!(code(doc! { "a": { "$foo": 1 } }), ErrorCode::InvalidPipelineOperator);
        assert_eq!(code(doc! { "a.b": { "$elemMatch": { "x": 1 } } }), ErrorCode::Location31255);
        assert_eq!(code(doc! { "a": { "$slice": "x" } }), ErrorCode::Location28667);
        assert_eq!(code(doc! { "a": { "$slice": [0, 0] } }), ErrorCode::Location28724);
        assert_eq!(code(doc! { "a.$.b": 1 }), ErrorCode::Location31394);
        assert_eq!(code(doc! { "a.$": 1, "b.$": 1 }), ErrorCode::Location31276);
        assert_eq!(code(doc! { "b": 0, "a.$": 1 }), ErrorCode::Location31395);
        assert_eq!(code(doc! { "cast.$": 1 }), ErrorCode::Location51246);
        assert_eq!(code(doc! { vec!["a"; 5_000_000].join("."): 1 }), ErrorCode::Overflow);
    }

    #[test]
    fn fields_are_computed_by_expressions_and_literals_beside_parts_of_arrays() {
        assert_eq!(
            project(
                doc! { "title": 1, "who": "$by.name", "age": { "$subtract": ["$year", "$by.born"] } },
                film()
            )
            .unwrap(),
            doc! { "_id": 1, "title": "Alien", "who": "Scott", "age": 42 }
        );
        assert_eq!(
            project(doc! { "_id": 0, "by": { "name": "x" }, "year": bson::Bson::Null }, film()).unwrap(),
            doc! { "by": { "name": "x" }, "year": bson::Bson::Null }
        );
        assert_eq!(
            project(doc! { "_id": 0, "cast": { "$slice": 1 }, "n": { "$size": "$cast" } }, film()).unwrap(),
            doc! { "cast": [{ "name": "Weaver", "role": "Ripley" }], "n": 3 }
        );
        assert_eq!(
            project(doc! { "_id": 0, "cast": { "$slice": ["$cast", 1, 1] } }, film()).unwrap(),
            doc! { "cast": ["extras"] }
        );
        assert_eq!(project(doc! { "none": "$nothing" }, film()).unwrap(), doc! { "_id": 1 });
    }

    #[test]
    fn parts_of_arrays_are_handed_out() {
        let numbers = doc! { "_id": 1, "a": [1, 2, 3, 4], "b": { "c": [{ "x": 1 }, { "x": 2 }] }, "d": 5 };
        let part = |projection: Document| project(projection, numbers.clone()).unwrap();
        assert_eq!(part(doc! { "a": { "$slice": 1 }, "b": 0 }), doc! { "_id": 1, "a": [1], "d": 5 });
        assert_eq!(part(doc! { "a": { "$slice": -2 }, "d": 1 }), doc! { "_id": 1, "a": [3, 4], "d": 5 });
        assert_eq!(part(doc! { "a": { "$slice": [1, 2] } }).get_array("a").unwrap().len(), 2);
        assert_eq!(part(doc! { "a": { "$slice": [-9, 2] } }).get("a"), Some(&bson::bson!([1, 2])));
        assert_eq!(
            part(doc! { "b.c": { "$slice": 1 }, "a": 0, "d": { "$slice": 1 } }),
            doc! { "_id": 1, "b": { "c": [{ "x": 1 }] }, "d": 5 }
        );
        assert_eq!(part(doc! { "a": { "$elemMatch": { "$gt": 2 } } }), doc! { "_id": 1, "a": [3] });
        assert_eq!(part(doc! { "a": { "$elemMatch": { "$gt": 9 } } }), doc! { "_id": 1 });
        let matched = |filter: Document, projection: Document| {
            let raw = |d: &Document| RawDocumentBuf::try_from(d).unwrap();
            let filter = Filter::parse(&raw(&filter)).unwrap();
            let projection = Projection::parse_for(&raw(&projection), &filter).unwrap().unwrap();
            Document::try_from(&*projection.apply(&raw(&numbers)).unwrap()).unwrap()
        };
        assert_eq!(matched(doc! { "a": { "$gt": 2 } }, doc! { "a.$": 1 }), doc! { "_id": 1, "a": [3] });
        assert_eq!(
            matched(doc! { "b.c.x": 2 }, doc! { "b.c.$": 1, "_id": 0 }),
            doc! { "b": { "c": [{ "x": 2 }] } }
        );
    }
}
