//! The details of a failed validation: the `errInfo` of error 121, laid out as MongoDB does.
//!
//! Each clause of the filter and each keyword of a `$jsonSchema` is evaluated by itself; each that fails is reported with its
//! operand and the value it found. This only explains: the whole filter has already decided.

use bson::raw::cstr;
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::doc::{Collation, Value};
use crate::error::Result;
use crate::query::Filter;

/// Bytes of the largest value that is shown.
const MAX_CONSIDERED_VALUE: usize = 1024;

/// `{failingDocumentId, details}` of a document that does not match `filter`.
pub(super) fn info(filter: &RawDocument, collation: &Collation, document: &RawDocument) -> RawDocumentBuf {
    let mut info = RawDocumentBuf::new();
    if let Ok(Some(id)) = document.get("_id") {
        info.append(cstr!("failingDocumentId"), id);
    }
    let explainer = Explainer { collation, document };
    if let Ok(Some(details)) = explainer.filter(filter) {
        info.append(cstr!("details"), details);
    }
    info
}

/// Explains why a document does not match.
struct Explainer<'a> {
    collation: &'a Collation,
    document: &'a RawDocument,
}

impl Explainer<'_> {
    fn matches(&self, filter: &RawDocument) -> Result<bool> {
        Filter::parse(filter)?.collated(self.collation)?.matches(self.document)
    }

    /// The clauses of `filter` that do not match; `None` if all do.
    fn filter(&self, filter: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        let (mut clauses, mut failed) = (0, Vec::new());
        for element in filter {
            let (name, value) = element?;
            let operators = value.as_document().filter(|value| {
                value
                    .iter()
                    .next()
                    .is_some_and(|first| first.is_ok_and(|(name, _)| name.as_str().starts_with('$')))
            });
            match operators {
                Some(operators) if !name.as_str().starts_with('$') => {
                    for operator in operators {
                        let (operator, operand) = operator?;
                        // Part of the `$regex` next to it.
                        if operator.as_str() == "$options" {
                            continue;
                        }
                        let mut one = RawDocumentBuf::new();
                        one.append(operator, operand);
                        if let ("$regex", Some(options)) = (operator.as_str(), operators.get("$options")?) {
                            one.append(cstr!("$options"), options);
                        }
                        let mut clause = RawDocumentBuf::new();
                        clause.append(name, one);
                        let found = self.field_clause(name.as_str(), operator.as_str(), &clause)?;
                        failed.extend(found.map(|found| (clauses, found)));
                        clauses += 1;
                    }
                }
                _ => {
                    let mut clause = RawDocumentBuf::new();
                    clause.append(name, value);
                    let found = match (name.as_str(), value) {
                        ("$jsonSchema", RawBsonRef::Document(schema)) => {
                            self.schema_clause(&clause, schema)?
                        }
                        ("$and" | "$or" | "$nor", RawBsonRef::Array(parts)) => {
                            self.logical_clause(name.as_str(), &clause, parts)?
                        }
                        (operator, _) if operator.starts_with('$') => {
                            self.document_clause(operator, &clause)?
                        }
                        (path, _) => self.field_clause(path, "$eq", &clause)?,
                    };
                    failed.extend(found.map(|found| (clauses, found)));
                    clauses += 1;
                }
            }
        }
        if clauses == 1 {
            return Ok(failed.pop().map(|(_, only)| only));
        }
        if failed.is_empty() {
            return Ok(None);
        }
        Ok(Some(rawdoc! { "operatorName": "$and", "clausesNotSatisfied": numbered(failed) }))
    }

    /// A clause about a field.
    fn field_clause(
        &self,
        path: &str,
        operator: &str,
        clause: &RawDocument,
    ) -> Result<Option<RawDocumentBuf>> {
        if self.matches(clause)? {
            return Ok(None);
        }
        let mut details = rawdoc! { "operatorName": operator, "specifiedAs": clause.to_owned() };
        match at_path(self.document, path) {
            None => details.append(cstr!("reason"), "field was missing"),
            Some(value) => {
                details.append(cstr!("reason"), reason(operator));
                append_considered_value(&mut details, value, operator == "$type");
            }
        }
        Ok(Some(details))
    }

    /// A clause about the whole document.
    fn document_clause(&self, operator: &str, clause: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        if self.matches(clause)? {
            return Ok(None);
        }
        Ok(Some(rawdoc! {
            "operatorName": operator, "specifiedAs": clause.to_owned(), "reason": "expression did not match",
        }))
    }

    fn logical_clause(
        &self,
        operator: &str,
        clause: &RawDocument,
        parts: &RawArray,
    ) -> Result<Option<RawDocumentBuf>> {
        if self.matches(clause)? {
            return Ok(None);
        }
        let nor = operator == "$nor";
        let mut failed = Vec::new();
        for (index, part) in parts.into_iter().enumerate() {
            let Some(part) = part?.as_document() else { continue };
            match self.filter(part)? {
                Some(details) if !nor => failed.push((index, details)),
                None if nor => failed.push((index, rawdoc! { "specifiedAs": part.to_owned() })),
                _ => {}
            }
        }
        let name = if nor { cstr!("clausesSatisfied") } else { cstr!("clausesNotSatisfied") };
        let mut details = rawdoc! { "operatorName": operator };
        details.append(name, numbered(failed));
        Ok(Some(details))
    }

    fn schema_clause(&self, clause: &RawDocument, schema: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        if self.matches(clause)? {
            return Ok(None);
        }
        let rules = failed_rules(schema, RawBsonRef::Document(self.document))?;
        Ok(Some(rawdoc! { "operatorName": "$jsonSchema", "schemaRulesNotSatisfied": rules }))
    }
}

/// The rules of `schema` that `value` does not satisfy.
fn failed_rules(schema: &RawDocument, value: RawBsonRef<'_>) -> Result<RawArrayBuf> {
    let mut failed = RawArrayBuf::new();
    for element in schema {
        let (keyword, wanted) = element?;
        let name = keyword.as_str();
        if matches!(
            name,
            "title" | "description" | "exclusiveMinimum" | "exclusiveMaximum" | "additionalItems"
        ) {
            continue;
        }
        let mut single = RawDocumentBuf::new();
        single.append(keyword, wanted);
        // Keywords that modify others have no meaning alone.
        let companions: &[&str] = match name {
            "minimum" => &["exclusiveMinimum"],
            "maximum" => &["exclusiveMaximum"],
            "items" => &["additionalItems"],
            "additionalProperties" => &["properties", "patternProperties"],
            _ => &[],
        };
        for other in schema {
            let (other, with) = other?;
            if !companions.contains(&other.as_str()) {
                continue;
            }
            match with.as_document().filter(|_| name == "additionalProperties") {
                // Only their names matter, not their schemas.
                Some(properties) => {
                    let mut any = RawDocumentBuf::new();
                    for property in properties {
                        any.append(property?.0, RawDocumentBuf::new());
                    }
                    single.append(other, any);
                }
                None => single.append(other, with),
            }
        }
        if !is_valid(&single, value)? {
            failed.push(rule_details(name, wanted, &single, value)?);
        }
    }
    Ok(failed)
}

/// True if `value` satisfies `schema`.
fn is_valid(schema: &RawDocument, value: RawBsonRef<'_>) -> Result<bool> {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("v"), value);
    let filter = rawdoc! { "$jsonSchema": { "properties": { "v": schema.to_owned() } } };
    Filter::parse(&filter)?.matches(&document)
}

/// The details of a keyword that `value` does not satisfy.
fn rule_details(
    name: &str,
    wanted: RawBsonRef<'_>,
    single: &RawDocument,
    value: RawBsonRef<'_>,
) -> Result<RawDocumentBuf> {
    let mut details = rawdoc! { "operatorName": name };
    match (name, wanted, value) {
        ("properties", RawBsonRef::Document(properties), RawBsonRef::Document(document)) => {
            let mut failed = RawArrayBuf::new();
            for property in properties {
                let (property, schema) = property?;
                let (Some(schema), Some(value)) = (schema.as_document(), document.get(property.as_str())?)
                else {
                    continue;
                };
                if is_valid(schema, value)? {
                    continue;
                }
                let mut entry = rawdoc! { "propertyName": property.as_str() };
                for text in [cstr!("title"), cstr!("description")] {
                    if let Some(said) = schema.get(text.as_str())? {
                        entry.append(text, said);
                    }
                }
                entry.append(cstr!("details"), failed_rules(schema, value)?);
                failed.push(entry);
            }
            details.append(cstr!("propertiesNotSatisfied"), failed);
        }
        ("required", RawBsonRef::Array(fields), RawBsonRef::Document(document)) => {
            let mut missing = RawArrayBuf::new();
            for field in fields {
                if let RawBsonRef::String(field) = field?
                    && document.get(field)?.is_none()
                {
                    missing.push(field);
                }
            }
            append_specified_as(&mut details, name, wanted);
            details.append(cstr!("missingProperties"), missing);
        }
        ("additionalProperties", RawBsonRef::Boolean(false), RawBsonRef::Document(document)) => {
            let mut others = RawArrayBuf::new();
            for field in document {
                let (field, value) = field?;
                let mut one = RawDocumentBuf::new();
                one.append(field, value);
                if !is_valid(single, RawBsonRef::Document(&one))? {
                    others.push(field.as_str());
                }
            }
            append_specified_as(&mut details, name, wanted);
            details.append(cstr!("additionalProperties"), others);
        }
        ("items", RawBsonRef::Document(schema), RawBsonRef::Array(items)) => {
            details.append(cstr!("reason"), "At least one item did not match the sub-schema");
            for (index, item) in items.into_iter().enumerate() {
                let item = item?;
                if !is_valid(schema, item)? {
                    details.append(cstr!("itemIndex"), i32::try_from(index).unwrap_or(i32::MAX));
                    details.append(cstr!("details"), failed_rules(schema, item)?);
                    break;
                }
            }
        }
        ("allOf" | "anyOf" | "oneOf", RawBsonRef::Array(schemas), _) => {
            let mut failed = Vec::new();
            for (index, schema) in schemas.into_iter().enumerate() {
                if let Some(schema) = schema?.as_document()
                    && !is_valid(schema, value)?
                {
                    failed.push((index, rawdoc! { "details": failed_rules(schema, value)? }));
                }
            }
            if failed.is_empty() {
                details.append(cstr!("reason"), "more than one subschema matched");
            }
            details.append(cstr!("schemasNotSatisfied"), numbered(failed));
        }
        ("not", ..) => details.append(cstr!("reason"), "child expression matched"),
        _ => {
            append_specified_as(&mut details, name, wanted);
            details.append(cstr!("reason"), reason(name));
            append_considered_value(&mut details, value, matches!(name, "bsonType" | "type"));
        }
    }
    Ok(details)
}

/// An array of `{index, details}`.
fn numbered(failed: Vec<(usize, RawDocumentBuf)>) -> RawArrayBuf {
    let mut all = RawArrayBuf::new();
    for (index, details) in failed {
        let mut entry = rawdoc! { "index": i32::try_from(index).unwrap_or(i32::MAX) };
        match details.get("details") {
            Ok(Some(inner)) => entry.append(cstr!("details"), inner),
            _ => entry.append(cstr!("details"), details),
        }
        all.push(entry);
    }
    all
}

fn append_specified_as(details: &mut RawDocumentBuf, keyword: &str, wanted: RawBsonRef<'_>) {
    let mut specified = RawDocumentBuf::new();
    if let Ok(keyword) = bson::raw::CString::try_from(keyword) {
        specified.append(keyword, wanted);
    }
    details.append(cstr!("specifiedAs"), specified);
}

fn append_considered_value(details: &mut RawDocumentBuf, value: RawBsonRef<'_>, with_type: bool) {
    let mut shown = RawDocumentBuf::new();
    shown.append(cstr!("v"), value);
    if shown.as_bytes().len() <= MAX_CONSIDERED_VALUE {
        details.append(cstr!("consideredValue"), value);
    }
    if with_type {
        details.append(
            cstr!("consideredType"),
            RawBson::String(Value::with(value, |value| value.type_name()).to_owned()),
        );
    }
}

/// The value at a path through documents.
fn at_path<'d>(document: &'d RawDocument, path: &str) -> Option<RawBsonRef<'d>> {
    match path.split_once('.') {
        None => document.get(path).ok()?,
        Some((first, rest)) => match document.get(first).ok()?? {
            RawBsonRef::Document(inner) => at_path(inner, rest),
            array @ RawBsonRef::Array(_) => Some(array),
            _ => None,
        },
    }
}

fn reason(operator: &str) -> &'static str {
    match operator {
        "$eq" | "$ne" | "$gt" | "$gte" | "$lt" | "$lte" | "minimum" | "maximum" => "comparison failed",
        "$in" | "$nin" => "no matching value found in array",
        "enum" => "value was not found in enum",
        "$exists" => "path does exist",
        "$type" | "bsonType" | "type" => "type did not match",
        "$regex" | "pattern" => "regular expression did not match",
        "$size" => "array length was not equal to given size",
        "$elemMatch" | "$all" => "array did not satisfy the child predicate",
        "$mod" => "$mod did not evaluate to expected remainder",
        "multipleOf" => "considered value is not a multiple of the specified value",
        "minLength" | "maxLength" => "specified string length was not satisfied",
        "minItems" | "maxItems" => "array did not match specified length",
        "minProperties" | "maxProperties" => "specified number of properties was not satisfied",
        "uniqueItems" => "found a duplicate item",
        _ => "operator did not match",
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    fn details(filter: Document, document: Document) -> Document {
        let raw = |document: &Document| RawDocumentBuf::try_from(document).unwrap();
        let info = info(&raw(&filter), &Collation::default(), &raw(&document));
        let info = Document::try_from(&*info).unwrap();
        assert_eq!(info.get("failingDocumentId"), document.get("_id"));
        info.get_document("details").unwrap().clone()
    }

    #[test]
    fn each_rule_of_a_schema_that_does_not_hold_is_named() {
        let schema = doc! {
            "bsonType": "object", "required": ["name", "year"], "additionalProperties": false,
            "properties": {
                "_id": {}, "name": { "bsonType": "string", "description": "must be a string" },
                "year": { "minimum": 1900, "maximum": 2100 }, "tags": { "items": { "enum": ["a", "b"] } },
            },
        };
        let found = details(
            doc! { "$jsonSchema": schema },
            doc! { "_id": 1, "name": 7, "tags": ["a", "c"], "other": 1 },
        );
        let expected = doc! { "operatorName": "$jsonSchema", "schemaRulesNotSatisfied": [
            { "operatorName": "required", "specifiedAs": { "required": ["name", "year"] }, "missingProperties": ["year"] },
            { "operatorName": "additionalProperties", "specifiedAs": { "additionalProperties": false },
              "additionalProperties": ["other"] },
            { "operatorName": "properties", "propertiesNotSatisfied": [
                { "propertyName": "name", "description": "must be a string", "details": [
                    { "operatorName": "bsonType", "specifiedAs": { "bsonType": "string" }, "reason": "type did not match",
                      "consideredValue": 7, "consideredType": "int" } ] },
                { "propertyName": "tags", "details": [
                    { "operatorName": "items", "reason": "At least one item did not match the sub-schema", "itemIndex": 1,
                      "details": [ { "operatorName": "enum", "specifiedAs": { "enum": ["a", "b"] },
                                     "reason": "value was not found in enum", "consideredValue": "c" } ] } ] },
            ] },
        ] };
        assert_eq!(found, expected);
    }

    #[test]
    fn clauses_of_filters_are_named_with_what_they_found() {
        let found = details(doc! { "n": { "$gt": 5 } }, doc! { "_id": 1, "n": 3 });
        let gt = doc! { "operatorName": "$gt", "specifiedAs": { "n": { "$gt": 5 } }, "reason": "comparison failed",
        "consideredValue": 3 };
        assert_eq!(found, gt);
        let found = details(doc! { "n": { "$gt": 5, "$lt": 9 }, "m": 1 }, doc! { "_id": 1, "n": 3 });
        let missing =
            doc! { "operatorName": "$eq", "specifiedAs": { "m": 1 }, "reason": "field was missing" };
        let both = doc! { "operatorName": "$and", "clausesNotSatisfied": [
        { "index": 0, "details": gt.clone() }, { "index": 2, "details": missing } ] };
        assert_eq!(found, both);
        let found = details(doc! { "$or": [{ "n": { "$gt": 5 } }, { "n": 4 }] }, doc! { "n": 3 });
        assert_eq!(found.get_str("operatorName").unwrap(), "$or");
        assert_eq!(found.get_array("clausesNotSatisfied").unwrap().len(), 2);
    }
}
