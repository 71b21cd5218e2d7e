//! `$jsonSchema`: schema validation with MongoDB's subset of JSON Schema draft 4.
//!
//! Keywords for one type do not restrict values of other types. `bsonType` names BSON types, `type` the types
//! of JSON. `$ref`, `default`, `definitions`, `format`, `id` and the type `integer` are rejected, as in
//! MongoDB.

use std::cmp::Ordering;

use super::element::Types;
use super::modulo::whole_part;
use super::regex::Pattern;
use crate::doc::compare::compare;
use crate::doc::{Doc, Element, FieldsByName, OwnedValue, Value};
use crate::error::{ErrorCode, QueryError, Result};

/// A parsed schema.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schema {
    rules: Vec<Rule>,
}

/// One keyword, or a few keywords that are only meaningful together.
#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Type(Types),
    Enum(Vec<OwnedValue>),
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Schema),
    Minimum {
        bound: OwnedValue,
        exclusive: bool,
    },
    Maximum {
        bound: OwnedValue,
        exclusive: bool,
    },
    MultipleOf(OwnedValue),
    Length {
        least: u64,
        most: u64,
    },
    Pattern(Pattern),
    Items {
        least: u64,
        most: u64,
    },
    UniqueItems,
    /// `items` and `additionalItems`: schemas of the first elements, and of the others.
    Elements {
        first: Vec<Schema>,
        rest: Option<Rest>,
    },
    Fields {
        least: u64,
        most: u64,
    },
    Required(Vec<String>),
    Properties {
        /// Sorted by name.
        named: Vec<(String, Schema)>,
        patterns: Vec<(Pattern, Schema)>,
        rest: Option<Rest>,
    },
    /// `dependencies`: if the field exists, these fields must exist.
    RequiredIf(String, Vec<String>),
    /// `dependencies`: if the field exists, the document must be valid according to the schema.
    SchemaIf(String, Schema),
}

/// What is required of the fields or elements that have no schema of their own.
#[derive(Debug, Clone, PartialEq)]
enum Rest {
    /// There must not be any.
    Forbidden,
    Each(Box<Schema>),
}

fn parse_error(code: ErrorCode, what: impl Into<String>) -> QueryError {
    QueryError::new(code, what)
}

fn wrong(name: &str, expected: &str) -> QueryError {
    parse_error(ErrorCode::TypeMismatch, format!("$jsonSchema keyword '{name}' must be {expected}"))
}

fn object<'a>(element: &Element<'a>) -> Result<Doc<'a>> {
    match element.value() {
        Value::Document(doc) => Ok(doc),
        _ => Err(wrong(element.name_str(), "an object")),
    }
}

fn text(name: &str, value: Value<'_>) -> Result<String> {
    match value {
        Value::String(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        _ => Err(wrong(name, "a string, or an array of strings")),
    }
}

fn count(element: &Element<'_>) -> Result<u64> {
    let value = element.value();
    if !value.is_number() {
        return Err(wrong(element.name_str(), "a number"));
    }
    value.as_integer().and_then(|n| u64::try_from(n).ok()).ok_or_else(|| {
        parse_error(
            ErrorCode::FailedToParse,
            format!("$jsonSchema keyword '{}' must be a non-negative integer", element.name_str()),
        )
    })
}

fn flag(doc: Doc<'_>, name: &str) -> Result<bool> {
    match doc.get(name) {
        None => Ok(false),
        Some(Value::Bool(value)) => Ok(value),
        Some(_) => Err(wrong(name, "a boolean")),
    }
}

fn strings(element: &Element<'_>) -> Result<Vec<String>> {
    let name = element.name_str();
    let Value::Array(array) = element.value() else { return Err(wrong(name, "an array of strings")) };
    if array.is_empty() {
        return Err(parse_error(
            ErrorCode::FailedToParse,
            format!("$jsonSchema keyword '{name}' cannot be an empty array"),
        ));
    }
    array.elements().map(|element| text(name, element.value())).collect()
}

fn schemas(element: &Element<'_>) -> Result<Vec<Schema>> {
    let name = element.name_str();
    let Value::Array(array) = element.value() else { return Err(wrong(name, "an array of objects")) };
    if array.is_empty() {
        return Err(parse_error(
            ErrorCode::BadValue,
            format!("$jsonSchema keyword '{name}' must be a non-empty array"),
        ));
    }
    array.elements().map(|element| Schema::parse(&element)).collect()
}

/// The types that `bsonType` (BSON's names) or `type` (JSON's) allow.
fn types(element: &Element<'_>, json: bool) -> Result<Types> {
    let name = element.name_str();
    let one = |value: Value<'_>| {
        let alias = text(name, value)?;
        if json && !matches!(alias.as_str(), "object" | "array" | "string" | "number" | "boolean" | "null") {
            return Err(QueryError::bad_value(format!(
                "$jsonSchema type '{alias}' is not one of object, array, string, number, boolean, null: see bsonType"
            )));
        }
        Types::named(if json && alias == "boolean" { "bool" } else { &alias })
    };
    let Value::Array(array) = element.value() else { return one(element.value()) };
    let all = array.elements().map(|element| one(element.value())).collect::<Result<Vec<_>>>()?;
    all.into_iter().reduce(Types::union).ok_or_else(|| {
        parse_error(ErrorCode::FailedToParse, format!("$jsonSchema keyword '{name}' must name a type"))
    })
}

fn rest(element: &Element<'_>) -> Result<Option<Rest>> {
    match element.value() {
        Value::Bool(true) => Ok(None),
        Value::Bool(false) => Ok(Some(Rest::Forbidden)),
        Value::Document(_) => Ok(Some(Rest::Each(Box::new(Schema::parse(element)?)))),
        _ => Err(wrong(element.name_str(), "an object or a boolean")),
    }
}

fn named_schemas(element: &Element<'_>) -> Result<Vec<(String, Schema)>> {
    let inner = object(element)?;
    inner.elements().map(|one| Ok((one.name_str().to_owned(), Schema::parse(&one)?))).collect()
}

impl Schema {
    /// Parses a schema, the value of `element`.
    ///
    /// # Errors
    /// `TypeMismatch`, `FailedToParse` and `BadValue`, naming the keyword.
    pub(super) fn parse(element: &Element<'_>) -> Result<Self> {
        let Value::Document(doc) = element.value() else {
            return Err(wrong(element.name_str(), "an object"));
        };
        let mut rules = Vec::new();
        for element in doc.elements() {
            rules.extend(keyword(doc, &element)?);
        }
        rules.extend(properties(doc)?);
        rules.extend(elements(doc)?);
        Ok(Schema { rules })
    }

    /// True if the document is valid according to the schema.
    pub fn allows(&self, doc: Doc<'_>) -> bool {
        self.fits(Value::Document(doc))
    }

    fn fits(&self, value: Value<'_>) -> bool {
        self.rules.iter().all(|rule| rule.allows(value))
    }
}

/// The rules of one keyword; the keywords of properties and elements are parsed together by their own
/// functions.
fn keyword(doc: Doc<'_>, element: &Element<'_>) -> Result<Vec<Rule>> {
    let name = element.name_str();
    let number = || {
        if element.value().is_number() {
            Ok(OwnedValue::from_element(element))
        } else {
            Err(wrong(name, "a number"))
        }
    };
    Ok(vec![match name {
        "bsonType" | "type" => {
            if doc.get("bsonType").is_some() && doc.get("type").is_some() {
                return Err(parse_error(
                    ErrorCode::FailedToParse,
                    "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'",
                ));
            }
            Rule::Type(types(element, name == "type")?)
        }
        "enum" => {
            let Value::Array(array) = element.value() else { return Err(wrong(name, "an array")) };
            if array.is_empty() {
                return Err(parse_error(
                    ErrorCode::FailedToParse,
                    "$jsonSchema keyword 'enum' cannot be an empty array",
                ));
            }
            Rule::Enum(array.elements().map(|one| OwnedValue::from_element(&one)).collect())
        }
        "allOf" => Rule::AllOf(schemas(element)?),
        "anyOf" => Rule::AnyOf(schemas(element)?),
        "oneOf" => Rule::OneOf(schemas(element)?),
        "not" => Rule::Not(Schema::parse(element)?),
        "minimum" => Rule::Minimum { bound: number()?, exclusive: flag(doc, "exclusiveMinimum")? },
        "maximum" => Rule::Maximum { bound: number()?, exclusive: flag(doc, "exclusiveMaximum")? },
        "exclusiveMinimum" | "exclusiveMaximum" => {
            flag(doc, name)?;
            let bound = if name == "exclusiveMinimum" { "minimum" } else { "maximum" };
            if doc.get(bound).is_none() {
                return Err(parse_error(
                    ErrorCode::FailedToParse,
                    format!("$jsonSchema keyword '{bound}' must be present if {name} is present"),
                ));
            }
            return Ok(Vec::new());
        }
        "multipleOf" => {
            let by = number()?;
            if compare(by.value(), Value::Int32(0)) != Ordering::Greater {
                return Err(parse_error(
                    ErrorCode::FailedToParse,
                    "$jsonSchema keyword 'multipleOf' must have a positive value",
                ));
            }
            Rule::MultipleOf(by)
        }
        "minLength" => Rule::Length { least: count(element)?, most: u64::MAX },
        "maxLength" => Rule::Length { least: 0, most: count(element)? },
        "pattern" => Rule::Pattern(Pattern::new(&text(name, element.value())?, "")?),
        "minItems" => Rule::Items { least: count(element)?, most: u64::MAX },
        "maxItems" => Rule::Items { least: 0, most: count(element)? },
        "uniqueItems" if !flag(doc, name)? => return Ok(Vec::new()),
        "uniqueItems" => Rule::UniqueItems,
        "minProperties" => Rule::Fields { least: count(element)?, most: u64::MAX },
        "maxProperties" => Rule::Fields { least: 0, most: count(element)? },
        "required" => Rule::Required(strings(element)?),
        "dependencies" => return dependencies(element),
        "title" | "description" => {
            text(name, element.value())?;
            return Ok(Vec::new());
        }
        "properties" | "patternProperties" | "additionalProperties" | "items" | "additionalItems" => {
            return Ok(Vec::new());
        }
        "$ref" | "$schema" | "default" | "definitions" | "format" | "id" => {
            return Err(parse_error(
                ErrorCode::FailedToParse,
                format!("$jsonSchema keyword '{name}' is not currently supported"),
            ));
        }
        _ => {
            return Err(parse_error(
                ErrorCode::FailedToParse,
                format!("Unknown $jsonSchema keyword: {name}"),
            ));
        }
    }])
}

fn dependencies(element: &Element<'_>) -> Result<Vec<Rule>> {
    object(element)?
        .elements()
        .map(|one| {
            let field = one.name_str().to_owned();
            Ok(match one.value() {
                Value::Document(_) => Rule::SchemaIf(field, Schema::parse(&one)?),
                _ => Rule::RequiredIf(field, strings(&one)?),
            })
        })
        .collect()
}

fn properties(doc: Doc<'_>) -> Result<Option<Rule>> {
    let mut rule = (Vec::new(), Vec::new(), None);
    let mut any = false;
    for element in doc.elements() {
        match element.name {
            b"properties" => {
                rule.0 = named_schemas(&element)?;
                rule.0.sort_by(|(a, _), (b, _)| a.cmp(b));
            }
            b"patternProperties" => {
                for (pattern, schema) in named_schemas(&element)? {
                    rule.1.push((Pattern::new(&pattern, "")?, schema));
                }
            }
            b"additionalProperties" => rule.2 = rest(&element)?,
            _ => continue,
        }
        any = true;
    }
    let (named, patterns, rest) = rule;
    Ok(any.then_some(Rule::Properties { named, patterns, rest }))
}

fn elements(doc: Doc<'_>) -> Result<Option<Rule>> {
    let others = doc.find(b"additionalItems").map(|element| rest(&element)).transpose()?.flatten();
    let Some(items) = doc.find(b"items") else { return Ok(None) };
    Ok(Some(match items.value() {
        Value::Document(_) => {
            Rule::Elements { first: Vec::new(), rest: Some(Rest::Each(Box::new(Schema::parse(&items)?))) }
        }
        Value::Array(array) => Rule::Elements {
            first: array.elements().map(|one| Schema::parse(&one)).collect::<Result<_>>()?,
            rest: others,
        },
        _ => return Err(wrong("items", "an array or an object")),
    }))
}

impl Rule {
    fn allows(&self, value: Value<'_>) -> bool {
        let between = |count: usize, least: u64, most: u64| (least..=most).contains(&(count as u64));
        match (self, value) {
            (Rule::Type(types), value) => types.has(value),
            (Rule::Enum(values), value) => values.iter().any(|one| compare(one.value(), value).is_eq()),
            (Rule::AllOf(all), value) => all.iter().all(|schema| schema.fits(value)),
            (Rule::AnyOf(any), value) => any.iter().any(|schema| schema.fits(value)),
            (Rule::OneOf(one), value) => one.iter().filter(|schema| schema.fits(value)).count() == 1,
            (Rule::Not(schema), value) => !schema.fits(value),
            (Rule::Minimum { bound, exclusive }, value) if value.is_number() => {
                let order = compare(value, bound.value());
                order.is_gt() || !exclusive && order.is_eq()
            }
            (Rule::Maximum { bound, exclusive }, value) if value.is_number() => {
                let order = compare(value, bound.value());
                order.is_lt() || !exclusive && order.is_eq()
            }
            (Rule::MultipleOf(by), value) if value.is_number() => is_multiple(value, by.value()),
            (Rule::Length { least, most }, Value::String(text)) => {
                // Characters: all bytes except UTF-8 continuation bytes.
                between(text.iter().filter(|byte| **byte & 0xc0 != 0x80).count(), *least, *most)
            }
            (Rule::Pattern(pattern), Value::String(text)) => pattern.finds(text),
            (Rule::Items { least, most }, Value::Array(array)) => {
                between(array.elements().count(), *least, *most)
            }
            (Rule::UniqueItems, Value::Array(array)) => {
                let mut values: Vec<Value<'_>> = array.elements().map(|element| element.value()).collect();
                values.sort_by(|a, b| compare(*a, *b));
                values.windows(2).all(|pair| !matches!(pair, [a, b] if compare(*a, *b).is_eq()))
            }
            (Rule::Elements { first, rest }, Value::Array(array)) => {
                array.elements().enumerate().all(|(at, element)| match (first.get(at), rest) {
                    (Some(schema), _) => schema.fits(element.value()),
                    (None, Some(rest)) => rest.allows(element.value()),
                    (None, None) => true,
                })
            }
            (Rule::Fields { least, most }, Value::Document(doc)) => {
                between(doc.elements().count(), *least, *most)
            }
            (Rule::Required(names), Value::Document(doc)) => has_all(doc, names),
            (Rule::Properties { named, patterns, rest }, Value::Document(doc)) => {
                doc.elements().all(|element| property(named, patterns, rest.as_ref(), &element))
            }
            (Rule::RequiredIf(field, names), Value::Document(doc)) => {
                doc.find(field.as_bytes()).is_none() || has_all(doc, names)
            }
            (Rule::SchemaIf(field, schema), Value::Document(doc)) => {
                doc.find(field.as_bytes()).is_none() || schema.fits(value)
            }
            _ => true,
        }
    }
}

impl Rest {
    fn allows(&self, value: Value<'_>) -> bool {
        match self {
            Rest::Forbidden => false,
            Rest::Each(schema) => schema.fits(value),
        }
    }
}

fn has_all(doc: Doc<'_>, names: &[String]) -> bool {
    let mut fields = FieldsByName::new(doc);
    names.iter().all(|name| fields.find(name.as_bytes()).is_some())
}

fn property(
    named: &[(String, Schema)],
    patterns: &[(Pattern, Schema)],
    rest: Option<&Rest>,
    element: &Element<'_>,
) -> bool {
    let value = element.value();
    let mut known = false;
    let first = named.partition_point(|(name, _)| name.as_bytes() < element.name);
    for (_, schema) in named.iter().skip(first).take_while(|(name, _)| name.as_bytes() == element.name) {
        known = true;
        if !schema.fits(value) {
            return false;
        }
    }
    for (_, schema) in patterns.iter().filter(|(pattern, _)| pattern.finds(element.name)) {
        known = true;
        if !schema.fits(value) {
            return false;
        }
    }
    known || rest.is_none_or(|rest| rest.allows(value))
}

/// True if the remainder of the division is zero.
fn is_multiple(value: Value<'_>, by: Value<'_>) -> bool {
    if let (Some(value), Some(by)) = (value.as_integer(), by.as_integer()) {
        return value.checked_rem(by) == Some(0);
    }
    let double = |value: Value<'_>| match value {
        Value::Double(number) => number,
        Value::Decimal(bytes) => bson::Decimal128::from_bytes(bytes).to_string().parse().unwrap_or(f64::NAN),
        other => whole_part(other).map_or(f64::NAN, |number| number as f64),
    };
    double(value) % double(by) == 0.0
}
