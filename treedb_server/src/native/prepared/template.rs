//! A document with parameters: `{$param: n}` stands for the value with number n, which each execution gives.
//!
//! A template is compiled once to steps that copy bytes, so that filling it in parses nothing. A value is never read as more than a value:
//!
//! | in | a parameter may be |
//! |---|---|
//! | a filter | what a field equals (a document or regular expression too: it becomes the operand of `$eq`), the operand of an operator that takes a value (`$gt`, `$in`), or a part of a document or array that is one |
//! | an update | a value in `$set`, `$setOnInsert`, `$inc`, `$mul`, `$min`, `$max`, in `$each` of `$push` and `$addToSet`, and anywhere in a replacement |
//! | a document to insert | any value |
//!
//! Everywhere else, as in `$expr`, where a string could name a field, it is refused.

use std::collections::HashMap;
use std::ops::Range;

use bson::RawDocument;
use treedb_collections::ErrorCode;
use treedb_query::doc::{Doc, Element, MAX_DOCUMENT_SIZE, Value, validate};

use crate::native::failure::Failure;

/// The most parameters of a statement.
pub(crate) const MAX_PARAMETERS: usize = 1_024;

/// The name of a parameter's only field.
const PARAM: &[u8] = b"$param";

/// The most bytes that filling adds for a step besides what the template and the values have: a document around a value.
const STEP_BYTES: usize = 16;

/// Type bytes of BSON.
const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;
const REGEX: u8 = 0x0b;
const CODE_SCOPE: u8 = 0x0f;

/// Operators whose operand is a value.
const OF_VALUES: &[&[u8]] = &[
    b"$eq",
    b"$ne",
    b"$gt",
    b"$gte",
    b"$lt",
    b"$lte",
    b"$in",
    b"$nin",
    b"$size",
    b"$mod",
    b"$exists",
    b"$type",
    b"$regex",
    b"$options",
];

/// Where a part of a document is, and so what a parameter means there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A filter: fields, and `$and` and the like.
    Filter,
    /// The filters of `$and`.
    Filters,
    /// The operators of a field.
    Operators,
    /// The array of `$in` or `$nin`, in which a regular expression would be executed.
    Members,
    /// A value, or something in one.
    Value,
    /// The operators of an update, or a replacement.
    Update,
    /// The fields of `$set`.
    Fields,
    /// The fields of `$push`.
    Pushes,
    /// `$each` and what is beside it.
    Modifiers,
    /// No parameter may be here.
    Nowhere,
}

fn is_operator(name: &[u8]) -> bool {
    name.first() == Some(&b'$')
}

/// True if the first name of the document in `element` is an operator.
fn has_operators(element: &Element<'_>) -> bool {
    element.kind == DOCUMENT
        && Doc::new(element.bytes).elements().next().is_some_and(|first| is_operator(first.name))
}

impl Place {
    /// The place of what is in `element`, which is a document or an array here.
    fn inside(self, element: &Element<'_>) -> Place {
        match (self, element.name) {
            (Place::Filter, b"$and" | b"$or" | b"$nor") => Place::Filters,
            (Place::Filters, _) => Place::Filter,
            (Place::Filter, name) if is_operator(name) => Place::Nowhere,
            (Place::Filter, _) if has_operators(element) => Place::Operators,
            (Place::Operators, b"$not") => Place::Operators,
            (Place::Operators, b"$elemMatch") if has_operators(element) => Place::Operators,
            (Place::Operators, b"$elemMatch") => Place::Filter,
            (Place::Operators, b"$in" | b"$nin") => Place::Members,
            (Place::Operators, name) if !OF_VALUES.contains(&name) => Place::Nowhere,
            (Place::Update, b"$set" | b"$setOnInsert" | b"$inc" | b"$mul" | b"$min" | b"$max") => {
                Place::Fields
            }
            (Place::Update, b"$push" | b"$addToSet") => Place::Pushes,
            (Place::Update, name) if is_operator(name) => Place::Nowhere,
            (Place::Pushes, _) => Place::Modifiers,
            (Place::Modifiers, b"$each") => Place::Value,
            (Place::Modifiers | Place::Nowhere, _) => Place::Nowhere,
            (
                Place::Filter
                | Place::Operators
                | Place::Members
                | Place::Value
                | Place::Update
                | Place::Fields,
                _,
            ) => Place::Value,
        }
    }

    /// What a parameter of this name means here; `None` if it may not be here.
    fn parameter(self, name: &[u8]) -> Option<Meaning> {
        match self {
            Place::Filter if !is_operator(name) => Some(Meaning::Equal),
            Place::Operators if matches!(name, b"$in" | b"$nin") => Some(Meaning::Members),
            Place::Operators if OF_VALUES.contains(&name) => Some(Meaning::Value),
            Place::Members => Some(Meaning::Member),
            Place::Update if !is_operator(name) => Some(Meaning::Value),
            Place::Modifiers if name == b"$each" => Some(Meaning::Value),
            Place::Value | Place::Fields => Some(Meaning::Value),
            _ => None,
        }
    }
}

/// The parameters of a statement, which may have several templates.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    used: Vec<bool>,
}

impl Parameters {
    fn mark(&mut self, number: Value<'_>) -> Result<u16, Failure> {
        let number = match number {
            Value::Int32(number) => i64::from(number),
            Value::Int64(number) => number,
            _ => -1,
        };
        let at = usize::try_from(number).ok().filter(|&at| at < MAX_PARAMETERS);
        let (Some(at), Ok(number)) = (at, u16::try_from(number)) else {
            let message = format!("$param: must be an integer from 0 to {}", MAX_PARAMETERS - 1);
            return Err(Failure::new(ErrorCode::BadValue, message));
        };
        if at >= self.used.len() {
            self.used.resize(at + 1, false);
        }
        if let Some(used) = self.used.get_mut(at) {
            *used = true;
        }
        Ok(number)
    }

    /// How many there are.
    ///
    /// # Errors
    /// A number has been left out.
    pub(crate) fn count(self) -> Result<usize, Failure> {
        match self.used.iter().position(|used| !used) {
            Some(number) => {
                let message = format!("$param: {number} does not occur, but a greater number does");
                Err(Failure::new(ErrorCode::BadValue, message))
            }
            None => Ok(self.used.len()),
        }
    }
}

/// What the value of a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Any value.
    Value,
    /// What a field has to equal.
    Equal,
    /// One of the values of `$in` or `$nin`.
    Member,
    /// All of them: an array.
    Members,
}

impl Meaning {
    /// Refuses a value that would be more than one: a regular expression is executed where it is a member.
    fn check(self, value: &Element<'_>) -> Result<(), Failure> {
        let executed = match self {
            Meaning::Value | Meaning::Equal => false,
            Meaning::Member => value.kind == REGEX,
            Meaning::Members => {
                value.kind == ARRAY && Doc::new(value.bytes).elements().any(|member| member.kind == REGEX)
            }
        };
        if executed {
            let message = "a value of $in or $nin cannot be a regular expression: use a parameter of $regex";
            return Err(Failure::new(ErrorCode::BadValue, message));
        }
        Ok(())
    }
}

#[derive(Debug)]
enum Step {
    /// These bytes of the template.
    Copy(Range<usize>),
    /// The length of a document or array, which is not known yet.
    Open,
    /// Its end.
    Close,
    /// A value under a name, which ends with NUL.
    Parameter { name: Range<usize>, number: u16, meaning: Meaning },
}

/// A compiled template.
#[derive(Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    steps: Vec<Step>,
    /// It is nested no deeper than a document may be.
    is_shallow: bool,
}

impl Template {
    /// Compiles a document that has been validated, its depth included.
    ///
    /// # Errors
    /// `BadValue` for a parameter where there may be none, or that is not a number.
    pub(crate) fn compile(
        document: &RawDocument,
        place: Place,
        parameters: &mut Parameters,
    ) -> Result<Self, Failure> {
        let is_shallow = validate(document.as_bytes()).is_ok();
        let mut template = Template { bytes: Vec::new(), steps: Vec::new(), is_shallow };
        template.document(document.into(), place, parameters)?;
        Ok(template)
    }

    fn document(
        &mut self,
        document: Doc<'_>,
        place: Place,
        parameters: &mut Parameters,
    ) -> Result<(), Failure> {
        self.steps.push(Step::Open);
        for element in document.elements() {
            if let Some(number) = parameter(&element) {
                let Some(meaning) = place.parameter(element.name) else {
                    let message = format!("{}: a parameter cannot be here", element.name_str());
                    return Err(Failure::new(ErrorCode::BadValue, message));
                };
                let number = parameters.mark(number)?;
                let start = self.bytes.len();
                self.bytes.extend_from_slice(element.name);
                self.bytes.push(0);
                self.steps.push(Step::Parameter { name: start..self.bytes.len(), number, meaning });
            } else if has_parameters(&element) {
                self.copy(&[&[element.kind], element.name, &[0]]);
                self.document(Doc::new(element.bytes), place.inside(&element), parameters)?;
            } else {
                self.copy(&[&[element.kind], element.name, &[0], element.bytes]);
            }
        }
        self.steps.push(Step::Close);
        Ok(())
    }

    fn copy(&mut self, parts: &[&[u8]]) {
        let start = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        match self.steps.last_mut() {
            Some(Step::Copy(range)) if range.end == start => range.end = self.bytes.len(),
            _ => self.steps.push(Step::Copy(start..self.bytes.len())),
        }
    }

    /// The field, if the template is a filter that asks for one field to equal its only parameter.
    pub(crate) fn equality(&self) -> Option<&[u8]> {
        let [Step::Open, Step::Parameter { name, number: 0, meaning: Meaning::Equal }, Step::Close] =
            self.steps.as_slice()
        else {
            return None;
        };
        self.bytes.get(name.clone())?.strip_suffix(b"\0")
    }

    /// Whether the document that it makes of valid values, which has `length` bytes, is known to be valid: values in which others are nested
    /// could make it too deep.
    pub(crate) fn is_valid_with(&self, values: &[Element<'_>], length: usize) -> bool {
        self.is_shallow
            && length <= MAX_DOCUMENT_SIZE
            && values.iter().all(|value| !matches!(value.kind, DOCUMENT | ARRAY | CODE_SCOPE))
    }

    /// Bytes that it holds.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.steps.len() * size_of::<Step>()
    }

    /// About the bytes that so many documents have with `values` bytes of values together, if no value is used twice.
    pub(crate) fn room(&self, documents: usize, values: usize) -> usize {
        documents.saturating_mul(self.bytes.len() + STEP_BYTES).saturating_add(values)
    }

    /// The most bytes that so many documents have with `values` bytes of values together.
    pub(crate) fn most(&self, documents: usize, values: usize) -> usize {
        let mut uses = HashMap::<u16, usize>::new();
        for step in &self.steps {
            if let Step::Parameter { number, .. } = step {
                *uses.entry(*number).or_default() += 1;
            }
        }
        let repeated = uses.into_values().max().unwrap_or_default();
        let fixed = self.bytes.len() + self.steps.len() * STEP_BYTES;
        documents.saturating_mul(fixed).saturating_add(values.saturating_mul(repeated))
    }

    /// Appends the document with these values to `out`, which is to have at most `limit` bytes then.
    ///
    /// # Errors
    /// `BSONObjectTooLarge` for more; `BadValue` for a regular expression in `$in`.
    pub(crate) fn fill(
        &self,
        values: &[Element<'_>],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let mut open = Vec::new();
        for step in &self.steps {
            match step {
                Step::Copy(range) => out.extend_from_slice(self.bytes.get(range.clone()).unwrap_or_default()),
                Step::Open => {
                    open.push(out.len());
                    out.extend_from_slice(&[0; 4]);
                }
                Step::Close => {
                    out.push(0);
                    close(out, open.pop().unwrap_or_default());
                }
                Step::Parameter { name, number, meaning } => {
                    let missing = || Failure::new(ErrorCode::InternalError, "a value is missing");
                    let value = values.get(usize::from(*number)).ok_or_else(missing)?;
                    meaning.check(value)?;
                    let name = self.bytes.get(name.clone()).unwrap_or_default();
                    if *meaning == Meaning::Equal && matches!(value.kind, DOCUMENT | REGEX) {
                        out.push(DOCUMENT);
                        out.extend_from_slice(name);
                        let start = out.len();
                        out.extend_from_slice(&[0; 4]);
                        out.push(value.kind);
                        out.extend_from_slice(b"$eq\0");
                        out.extend_from_slice(value.bytes);
                        out.push(0);
                        close(out, start);
                    } else {
                        out.push(value.kind);
                        out.extend_from_slice(name);
                        out.extend_from_slice(value.bytes);
                    }
                }
            }
            if out.len() > limit {
                let message = format!("with its values the statement has more than {limit} bytes");
                return Err(Failure::new(ErrorCode::BSONObjectTooLarge, message));
            }
        }
        Ok(())
    }
}

/// Writes the length of the document that began at `start` and has ended.
fn close(out: &mut [u8], start: usize) {
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

/// The number of the parameter that `element` is, if it is one.
fn parameter<'a>(element: &Element<'a>) -> Option<Value<'a>> {
    if element.kind != DOCUMENT {
        return None;
    }
    let mut fields = Doc::new(element.bytes).elements();
    let only = fields.next().filter(|first| first.name == PARAM)?;
    fields.next().is_none().then(|| only.value())
}

/// True if there is a parameter somewhere in `element`.
fn has_parameters(element: &Element<'_>) -> bool {
    matches!(element.kind, DOCUMENT | ARRAY)
        && Doc::new(element.bytes)
            .elements()
            .any(|inner| parameter(&inner).is_some() || has_parameters(&inner))
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn compile(document: &RawDocument, place: Place) -> Result<(Template, usize), Failure> {
        let mut parameters = Parameters::default();
        let template = Template::compile(document, place, &mut parameters)?;
        Ok((template, parameters.count()?))
    }

    fn filled(template: &Template, values: &RawDocument) -> RawDocumentBuf {
        let mut out = b"before".to_vec();
        let values: Vec<_> = Doc::from(values).elements().collect();
        template.fill(&values, 1 << 20, &mut out).unwrap();
        RawDocumentBuf::from_bytes(out.split_off(6)).unwrap()
    }

    #[test]
    fn values_take_the_places_of_their_numbers() {
        let shape = rawdoc! {
            "x": 1, "y": { "$param": 1 }, "z": { "a": [ { "$param": 0 }, 2, { "b": { "$param": 1 } } ], "c": "d" }, "e": {}
        };
        let (template, count) = compile(&shape, Place::Value).unwrap();
        assert_eq!(count, 2);
        for (first, second) in [("", rawdoc! {}), ("one", rawdoc! { "two": [1, 2] })] {
            let filled = filled(&template, &rawdoc! { "": first, "": second.clone() });
            let expected = rawdoc! {
                "x": 1, "y": second.clone(), "z": { "a": [ first, 2, { "b": second } ], "c": "d" }, "e": {}
            };
            assert_eq!(filled, expected);
        }
    }

    #[test]
    fn a_document_that_a_field_has_to_equal_is_no_operator() {
        let (template, _) =
            compile(&rawdoc! { "user": { "$param": 0 }, "n": { "$gt": 1 } }, Place::Filter).unwrap();
        let attack = filled(&template, &rawdoc! { "": { "$ne": "" } });
        assert_eq!(attack, rawdoc! { "user": { "$eq": { "$ne": "" } }, "n": { "$gt": 1 } });
        let plain = filled(&template, &rawdoc! { "": "ann" });
        assert_eq!(plain, rawdoc! { "user": "ann", "n": { "$gt": 1 } });
    }

    #[test]
    fn parameters_are_refused_where_a_value_could_be_more_than_one() {
        let param = || rawdoc! { "$param": 0 };
        for filter in [
            rawdoc! { "$expr": { "$eq": ["$a", param()] } },
            rawdoc! { "$where": param() },
            rawdoc! { "$and": param() },
            rawdoc! { "$or": [param()] },
            rawdoc! { "a": { "$not": param() } },
            rawdoc! { "a": { "$elemMatch": param() } },
            rawdoc! { "a": { "$all": [param()] } },
            rawdoc! { "$text": { "$search": param() } },
        ] {
            assert_eq!(compile(&filter, Place::Filter).unwrap_err().0.code, 2, "{filter:?}");
        }
        for filter in [
            rawdoc! { "$and": [ { "a": param() }, { "b": { "$not": { "$gte": param() } } } ] },
            rawdoc! { "a": { "$elemMatch": { "b": param(), "c": { "$in": [1, param()] } } } },
            rawdoc! { "a": { "$elemMatch": { "$lt": param() } } },
            rawdoc! { "a": { "b": param() } },
        ] {
            assert_eq!(compile(&filter, Place::Filter).unwrap().1, 1, "{filter:?}");
        }
        for (update, fits) in [
            (rawdoc! { "$set": { "a": param(), "b": [param()] } }, true),
            (rawdoc! { "$push": { "a": { "$each": [param()] } } }, true),
            (rawdoc! { "a": param() }, true),
            (rawdoc! { "$set": param() }, false),
            (rawdoc! { "$push": { "a": param() } }, false),
            (rawdoc! { "$pull": { "a": param() } }, false),
            (rawdoc! { "$rename": { "a": param() } }, false),
        ] {
            assert_eq!(compile(&update, Place::Update).is_ok(), fits, "{update:?}");
        }
    }

    #[test]
    fn numbers_of_parameters_are_checked() {
        for bad in [
            rawdoc! { "$param": -1 },
            rawdoc! { "$param": 1024 },
            rawdoc! { "$param": "0" },
            rawdoc! { "$param": 1 },
        ] {
            assert_eq!(compile(&rawdoc! { "a": bad }, Place::Value).unwrap_err().0.code, 2);
        }
        // One more field makes it a document like any other.
        assert_eq!(compile(&rawdoc! { "a": { "$param": 0, "b": 1 } }, Place::Value).unwrap().1, 0);
    }

    #[test]
    fn a_document_is_known_to_be_valid_only_if_it_is_neither_too_deep_nor_too_long() {
        let (template, _) = compile(&rawdoc! { "a": { "$param": 0 } }, Place::Value).unwrap();
        let known = |template: &Template, values: RawDocumentBuf, length| {
            let values: Vec<_> = Doc::from(&*values).elements().collect();
            template.is_valid_with(&values, length)
        };
        assert!(known(&template, rawdoc! { "": "text" }, 100));
        assert!(!known(&template, rawdoc! { "": "text" }, MAX_DOCUMENT_SIZE + 1));
        assert!(!known(&template, rawdoc! { "": { "b": 1 } }, 100));
        assert!(!known(&template, rawdoc! { "": [1] }, 100));
        let mut deep = rawdoc! { "b": { "$param": 0 } };
        (0..treedb_query::doc::MAX_DEPTH).for_each(|_| deep = rawdoc! { "a": deep.clone() });
        let (template, _) = compile(&deep, Place::Value).unwrap();
        assert!(!known(&template, rawdoc! { "": 1 }, 100));
    }

    #[test]
    fn only_a_filter_of_one_equal_parameter_is_an_equality() {
        let param = |number: i32| rawdoc! { "$param": number };
        let field = |filter: RawDocumentBuf| {
            let (template, _) = compile(&filter, Place::Filter).unwrap();
            template.equality().map(|field| String::from_utf8_lossy(field).into_owned())
        };
        assert_eq!(field(rawdoc! { "a.b": param(0) }).as_deref(), Some("a.b"));
        for filter in [
            rawdoc! { "a": { "$eq": param(0) } },
            rawdoc! { "a": { "b": param(0) } },
            rawdoc! { "a": param(0), "b": param(0) },
            rawdoc! { "a": param(0), "b": 1 },
            rawdoc! { "$and": [{ "a": param(0) }] },
            rawdoc! { "a": 1 },
        ] {
            assert_eq!(field(filter.clone()), None, "{filter:?}");
        }
    }

    #[test]
    fn a_regular_expression_is_no_value_of_in() {
        let regex =
            || bson::Regex { pattern: bson::raw::cstr!("^").into(), options: bson::raw::cstr!("").into() };
        let refused = |filter: &RawDocument, value: RawDocumentBuf| {
            let (template, _) = compile(filter, Place::Filter).unwrap();
            let values: Vec<_> = Doc::from(&*value).elements().collect();
            template.fill(&values, 1 << 20, &mut Vec::new()).err().map(|error| error.0.code)
        };
        for operator in [bson::raw::cstr!("$in"), bson::raw::cstr!("$nin")] {
            let one = rawdoc! { "a": { operator: ["b", { "$param": 0 }] } };
            let all = rawdoc! { "a": { "$not": { operator: { "$param": 0 } } } };
            assert_eq!(refused(&one, rawdoc! { "": regex() }), Some(2));
            assert_eq!(refused(&all, rawdoc! { "": ["b", regex()] }), Some(2));
            // Compared, in an array or document that is a member.
            assert_eq!(refused(&one, rawdoc! { "": [regex()] }), None);
            assert_eq!(refused(&one, rawdoc! { "": "b" }), None);
            assert_eq!(refused(&all, rawdoc! { "": ["b", { "c": regex() }] }), None);
        }
    }

    #[test]
    fn documents_have_no_more_bytes_than_was_reserved_for_them() {
        let param = |number: i32| rawdoc! { "$param": number };
        for shape in [
            rawdoc! { "_id": param(0), "a long name of a field": param(1) },
            rawdoc! { "a": [param(0), param(0), { "b": param(0), "c": {} }], "d": param(1) },
            rawdoc! { "a": { "b": { "c": { "d": param(1) } } }, "": param(0) },
        ] {
            for place in [Place::Value, Place::Filter] {
                let (template, _) = compile(&shape, place).unwrap();
                for long in [0, 10, 10_000] {
                    let value = rawdoc! { "": { "x": "x".repeat(long) }, "": 1 };
                    let values: Vec<_> = Doc::from(&value).elements().collect();
                    let mut out = Vec::new();
                    (0..100).for_each(|_| template.fill(&values, usize::MAX, &mut out).unwrap());
                    let most = template.most(100, 100 * value.as_bytes().len());
                    assert!(out.len() <= most, "{} {most} {shape:?}", out.len());
                }
            }
        }
    }

    #[test]
    fn what_a_small_value_multiplies_to_is_bounded() {
        let fields: Vec<_> = (0..100).map(|_| rawdoc! { "$param": 0 }).collect();
        let mut array = bson::RawArrayBuf::new();
        fields.into_iter().for_each(|field| array.push(field));
        let (template, _) = compile(&rawdoc! { "a": array }, Place::Value).unwrap();
        let value = rawdoc! { "": "x".repeat(1_000) };
        let values: Vec<_> = Doc::from(&value).elements().collect();
        let mut out = Vec::new();
        assert_eq!(template.fill(&values, 50_000, &mut out).unwrap_err().0.code, 10_334);
        assert!(out.len() < 60_000);
    }
}
