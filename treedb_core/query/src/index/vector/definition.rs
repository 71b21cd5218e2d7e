//! The definition of a vector index, in the words of MongoDB's `createSearchIndexes`.

use bson::raw::cstr;
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use treedb_vector::few_bits::FewBits;

use super::{Element, Metric};
use crate::doc::{Doc, Path, Value, shown};
use crate::error::{ErrorCode, QueryError, Result};

/// The type of a search index over vectors.
const TYPE: &str = "vectorSearch";
/// Most dimensions of a vector: MongoDB's limit.
pub(super) const MAX_DIMENSIONS: i64 = 8192;
/// Links of a node, and nodes looked at when one is linked, unless the definition says otherwise: MongoDB's.
const LINKS: usize = 16;
const CANDIDATES: usize = 100;
/// Fields of vectors that a search index has at most: as many as a collection may have indexes.
const MOST_FIELDS: usize = 64;
/// Bytes of the name and the definition of a search index with several of them, at most: each keeps them all.
const MOST_BYTES: usize = 1 << 16;

/// What is kept of a vector for comparisons; the vector itself is in its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantization {
    /// The vector.
    None,
    /// A byte for each element. What a search finds is put in exact order by the vectors.
    Scalar,
    /// The same in the index; in memory, where it is searched, a bit for each element and not the vectors. What a search finds is put in
    /// exact order by the documents.
    Binary,
    /// The same with two bits.
    Bits2,
    /// The same with four bits.
    Bits4,
}

impl Quantization {
    /// The bits of each element in memory, if they are fewer than eight.
    pub fn few_bits(self) -> Option<usize> {
        match self {
            Quantization::None | Quantization::Scalar => None,
            Quantization::Binary => Some(1),
            Quantization::Bits2 => Some(2),
            Quantization::Bits4 => Some(4),
        }
    }
}

/// An index of the vectors of a field. A search index of several fields is as many of them, which have its name.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorDef {
    /// That of the search index, unique in its collection.
    pub name: String,
    /// The field.
    pub path: Path,
    /// The other fields of type `vector` of the search index, in the order of its definition. They have no others themselves.
    pub others: Vec<VectorDef>,
    /// How many of the others come before this one.
    pub place: usize,
    /// The fields of type `filter` that the definition names. A search may filter by any field, so they are only shown.
    pub filters: Vec<String>,
    /// What vectors in the index have.
    pub dimensions: usize,
    /// How far two vectors are from each other.
    pub metric: Metric,
    /// The greatest magnitude of an element, if the index has such a limit. No specification has it.
    pub greatest: Option<f32>,
    /// Documents with several vectors are not in the index: it was created by a version that did not know them.
    /// No specification has it.
    pub one_vector: bool,
    /// What the elements of vectors are rounded to, and kept as.
    pub elements: Element,
    /// What is compared first.
    pub quantization: Quantization,
    /// Links that a new node of the graph gets (M).
    pub links: usize,
    /// Nodes that are looked at when a new one is linked (`ef_construction`).
    pub candidates: usize,
}

fn invalid(message: String) -> QueryError {
    QueryError::new(ErrorCode::CannotCreateIndex, message)
}

impl VectorDef {
    /// An index of vectors with so many dimensions in the field at `path`, with defaults for the rest.
    pub fn new(path: &str, dimensions: usize, metric: Metric) -> Self {
        VectorDef {
            name: format!("{path}_{TYPE}"),
            path: Path::new(path),
            others: Vec::new(),
            place: 0,
            filters: Vec::new(),
            dimensions,
            metric,
            greatest: None,
            one_vector: false,
            elements: Element::Float32,
            quantization: default_quantization(metric, Element::Float32),
            links: LINKS,
            candidates: CANDIDATES,
        }
    }

    /// True if a specification is one of a vector index.
    pub fn is_specified_by(spec: &RawDocument) -> bool {
        matches!(Doc::from(spec).get("type"), Some(Value::String(name)) if name == TYPE.as_bytes())
    }

    /// Parses a specification as in `createSearchIndexes`: `{ name: "by_meaning", type: "vectorSearch", definition: { fields:
    /// [{ type: "vector", path: "embedding", numDimensions: 384, similarity: "cosine" }] } }`; one index for each field of type `vector`, at
    /// least one. Such a field may also have `quantization` (`none`, `scalar` or `binary`; `bits2` or `bits4`, which MongoDB has not),
    /// `hnswOptions` (`maxEdges`, `numEdgeCandidates`) and, which MongoDB has not, `elements` (`float32`, `float16`, `bfloat16` or `int8`).
    /// Fields of the type `filter` are allowed and not needed: a search may filter by any field.
    ///
    /// # Errors
    /// `CannotCreateIndex` naming what is missing, given twice, too much or not supported, which any other field is.
    pub fn all_from_spec(spec: &RawDocument) -> Result<Vec<Self>> {
        let (vectors, filters) = Self::fields_of_spec(spec)?;
        Ok(Self::all_of(&vectors, &filters))
    }

    /// The fields of vectors of such a specification, without the others, and those of the type `filter`.
    fn fields_of_spec(spec: &RawDocument) -> Result<(Vec<Self>, Vec<String>)> {
        let bytes = spec.get_document("definition").map_or(0, |definition| definition.as_bytes().len());
        let spec = Doc::from(spec);
        let Some(Value::Document(definition)) = spec.get("definition") else {
            return Err(invalid("a search index needs a \"definition\", which is an object".to_owned()));
        };
        only(definition, &["fields"], "the \"definition\"")?;
        let Some(Value::Array(fields)) = definition.get("fields") else {
            return Err(invalid(
                "the \"definition\" of a search index needs \"fields\", an array".to_owned(),
            ));
        };
        let (mut vectors, mut filters): (Vec<VectorDef>, Vec<String>) = (Vec::new(), Vec::new());
        for field in fields.elements() {
            let Value::Document(field) = field.value() else {
                return Err(invalid("each of the \"fields\" must be an object".to_owned()));
            };
            match text(field, "type")?.as_deref() {
                Some("vector") => {
                    let def = vector_field(field)?;
                    if vectors.iter().any(|other| other.path == def.path) {
                        let path = def.path.as_str();
                        return Err(invalid(format!(
                            "\"fields\" has two of type \"vector\" with the path '{path}'"
                        )));
                    }
                    if vectors.len() == MOST_FIELDS {
                        let message = format!("\"fields\" has more than {MOST_FIELDS} of type \"vector\"");
                        return Err(invalid(message));
                    }
                    vectors.push(def);
                }
                Some("filter") => {
                    only(field, &["type", "path"], "a field of type \"filter\"")?;
                    filters.push(path_of(field, "filter")?);
                }
                other => {
                    let other = other.unwrap_or_default();
                    return Err(invalid(format!(
                        "\"type\" of a field is \"vector\" or \"filter\", not \"{other}\""
                    )));
                }
            }
        }
        let Some(first) = vectors.first() else {
            return Err(invalid("\"fields\" needs one of type \"vector\"".to_owned()));
        };
        let name = match text(spec, "name")? {
            Some(name) if name.is_empty() => return Err(invalid("index names cannot be empty".to_owned())),
            Some(name) => name,
            None => first.name.clone(),
        };
        if vectors.len() > 1 && name.len() + bytes > MOST_BYTES {
            return Err(invalid(format!(
                "the name and the \"definition\" of a search index with several fields of type \"vector\" have at most {MOST_BYTES} bytes"
            )));
        }
        vectors.iter_mut().for_each(|def| def.name.clone_from(&name));
        Ok((vectors, filters))
    }

    /// The fields of a search index, each with the others.
    fn all_of(vectors: &[VectorDef], filters: &[String]) -> Vec<Self> {
        (0..vectors.len()).map(|place| Self::one_of(vectors, filters, place)).collect()
    }

    /// The field at a place of a search index, which has it, with the others.
    fn one_of(vectors: &[VectorDef], filters: &[String], place: usize) -> Self {
        let mut others = vectors.to_vec();
        let def = others.remove(place);
        VectorDef { others, place, filters: filters.to_vec(), ..def }
    }

    /// The one index of such a specification; if it has several fields of vectors, that whose `path` the specification has beside its
    /// `definition`.
    ///
    /// # Errors
    /// Those of [`Self::all_from_spec`]; `CannotCreateIndex` if it is not said which is meant of several.
    pub fn from_spec(spec: &RawDocument) -> Result<Self> {
        let (vectors, filters) = Self::fields_of_spec(spec)?;
        let path = text(Doc::from(spec), "path")?;
        let found = match &path {
            Some(path) => vectors.iter().position(|def| def.path.as_str() == path),
            None => Some(0).filter(|_| vectors.len() == 1),
        };
        match found {
            Some(place) => Ok(Self::one_of(&vectors, &filters, place)),
            None => {
                Err(invalid("an index has one field of type \"vector\" here: create one for each".to_owned()))
            }
        }
    }

    /// The fields of type `vector` of the search index, in the order of its definition: this one and the others.
    fn vector_fields(&self) -> impl Iterator<Item = &VectorDef> {
        let (before, after) = self.others.split_at_checked(self.place).unwrap_or((&self.others, &[]));
        before.iter().chain(std::iter::once(self)).chain(after)
    }

    /// This field of the search index and the others, in the order of its definition, each with the others.
    pub fn all_fields(&self) -> Vec<VectorDef> {
        Self::all_of(&self.vector_fields().map(Self::alone).collect::<Vec<_>>(), &self.filters)
    }

    /// The field without the others of the search index, whatever type these are of.
    fn alone(&self) -> VectorDef {
        VectorDef {
            name: self.name.clone(),
            others: Vec::new(),
            place: 0,
            filters: Vec::new(),
            path: self.path.clone(),
            ..*self
        }
    }

    /// The specification of the search index; [`Self::all_from_spec`] parses it.
    pub fn spec(&self) -> RawDocumentBuf {
        let mut fields = RawArrayBuf::new();
        self.vector_fields().for_each(|field| fields.push(field.field_spec()));
        self.filters.iter().for_each(|path| fields.push(rawdoc! { "type": "filter", "path": path.as_str() }));
        rawdoc! { "name": self.name.as_str(), "type": TYPE, "definition": { "fields": fields } }
    }

    /// The field of type `vector`, as it is in the specification.
    fn field_spec(&self) -> RawDocumentBuf {
        let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let mut field = rawdoc! {
            "type": "vector",
            "path": self.path.as_str(),
            "numDimensions": number(self.dimensions),
            "similarity": similarity(self.metric),
            "quantization": quantization_name(self.quantization),
            "hnswOptions": { "maxEdges": number(self.links), "numEdgeCandidates": number(self.candidates) },
        };
        if self.elements != Element::Float32 {
            field.append(cstr!("elements"), elements_name(self.elements));
        }
        field
    }

    /// Of the vector indexes of a collection, that of a search index and a field, which need not be given if the search index has only one.
    ///
    /// # Errors
    /// `IndexNotFound`; `BadValue` for another field, or if it is not said which is meant of several.
    pub fn chosen<'d, T>(
        all: impl Iterator<Item = (T, &'d VectorDef)>,
        name: &str,
        path: Option<&str>,
    ) -> Result<(T, &'d VectorDef)> {
        let mut first = None;
        for (found, def) in all.filter(|(_, def)| def.name == name) {
            if path.map_or(def.others.is_empty(), |path| path == def.path.as_str()) {
                return Ok((found, def));
            }
            first = first.or(Some(def));
        }
        let Some(def) = first else { return Err(QueryError::no_vector_index(name)) };
        let quoted = |field: &VectorDef| format!("'{}'", field.path.as_str());
        let fields = def.vector_fields().map(quoted).collect::<Vec<_>>();
        let (fields, s) = (fields.join(", "), if fields.len() == 1 { "" } else { "s" });
        Err(QueryError::bad_value(match path {
            Some(path) => {
                format!(
                    "Path '{path}' needs to be indexed as vector: index {name} is one of the field{s} {fields}"
                )
            }
            None => format!(
                "index {name} is one of the field{s} {fields}: the search needs the \"path\" of one of them"
            ),
        }))
    }

    /// The name of the search index, with the field if it is one of several.
    pub fn shown_name(&self) -> String {
        match self.others.is_empty() {
            true => self.name.clone(),
            false => format!("{} of '{}'", self.name, self.path.as_str()),
        }
    }

    /// What decides the graph: without its name, and without the other fields of its search index.
    pub fn of_graph(&self) -> VectorDef {
        VectorDef { name: String::new(), ..self.alone() }
    }

    /// Whether the graphs of two definitions are the same, whatever other fields their search indexes have.
    pub fn is_same_graph(&self, other: &VectorDef) -> bool {
        self.of_graph() == other.of_graph()
    }

    /// `{ embedding: "vectorSearch" }`.
    pub fn key_pattern(&self) -> RawDocumentBuf {
        let mut pattern = RawDocumentBuf::new();
        match bson::raw::CString::try_from(self.path.as_str()) {
            Ok(name) => pattern.append(name, TYPE),
            // No path of a document contains a NUL.
            Err(_) => pattern.append(cstr!(""), TYPE),
        }
        pattern
    }

    /// Whether `existing` already is the index of this definition. Another field of the same search index is another one.
    ///
    /// # Errors
    /// `IndexKeySpecsConflict` if it is one of another search index of the same name.
    pub fn is_same_as(&self, existing: &VectorDef) -> Result<bool> {
        if self.name != existing.name {
            return Ok(false);
        }
        let (requested, there) = (self.spec(), existing.spec());
        match requested == there {
            true => Ok(self.path == existing.path),
            false => Err(QueryError::new(
                ErrorCode::IndexKeySpecsConflict,
                format!(
                    "An existing index has the same name as the requested index: drop it first, or choose another name. \
                     Requested index: {}, existing index: {}",
                    shown(Value::Document((&requested).into())),
                    shown(Value::Document((&there).into()))
                ),
            )),
        }
    }

    /// Whether the index has codes of vectors; otherwise it has the vectors. The codes of bits are the bits, those of whole numbers the
    /// numbers.
    pub fn has_codes(&self) -> bool {
        self.quantization != Quantization::None || self.codes_are_vectors()
    }

    /// Whether the codes say exactly what the vectors are.
    pub fn codes_are_vectors(&self) -> bool {
        self.metric.is_of_bits() || self.elements == Element::Int8
    }

    /// The score of a vector at a distance, as MongoDB computes it: the greater, the nearer.
    pub fn score(&self, distance: f32) -> f64 {
        let distance = f64::from(distance);
        match self.metric {
            // Half of 1 plus the cosine, which is 1 minus the distance.
            Metric::Cosine => (2.0 - distance) / 2.0,
            // The distance is the product, negated.
            Metric::InnerProduct => (1.0 - distance) / 2.0,
            Metric::L2 | Metric::L1 => 1.0 / (1.0 + distance),
            // The part of the bits that are equal.
            Metric::Hamming => 1.0 - distance / self.dimensions as f64,
            Metric::Jaccard => 1.0 - distance,
        }
    }
}

/// The metrics and their names. MongoDB has the first three.
const SIMILARITIES: [(&str, Metric); 6] = [
    ("cosine", Metric::Cosine),
    ("dotProduct", Metric::InnerProduct),
    ("euclidean", Metric::L2),
    ("manhattan", Metric::L1),
    ("hamming", Metric::Hamming),
    ("jaccard", Metric::Jaccard),
];

/// The name of a metric.
fn similarity(metric: Metric) -> &'static str {
    SIMILARITIES.iter().find(|(_, own)| *own == metric).map_or("", |(name, _)| name)
}

/// The types of elements and their names.
const ELEMENTS: [(&str, Element); 4] = [
    ("float32", Element::Float32),
    ("float16", Element::Float16),
    ("bfloat16", Element::BFloat16),
    ("int8", Element::Int8),
];

/// The name of a type of elements.
fn elements_name(element: Element) -> &'static str {
    ELEMENTS.iter().find(|(_, own)| *own == element).map_or("", |(name, _)| name)
}

/// The quantizations and their names. MongoDB has the first three.
const QUANTIZATIONS: [(&str, Quantization); 5] = [
    ("none", Quantization::None),
    ("scalar", Quantization::Scalar),
    ("binary", Quantization::Binary),
    ("bits2", Quantization::Bits2),
    ("bits4", Quantization::Bits4),
];

/// The name of a quantization.
fn quantization_name(quantization: Quantization) -> &'static str {
    QUANTIZATIONS.iter().find(|(_, own)| *own == quantization).map_or("", |(name, _)| name)
}

/// The quantization of an index that does not say which. Sums of differences of codes take longer than those of vectors, and bits and whole
/// numbers are kept as they are.
fn default_quantization(metric: Metric, elements: Element) -> Quantization {
    match metric {
        _ if elements == Element::Int8 => Quantization::None,
        Metric::Cosine | Metric::InnerProduct | Metric::L2 => Quantization::Scalar,
        Metric::L1 | Metric::Hamming | Metric::Jaccard => Quantization::None,
    }
}

/// What a field of type `vector` may have.
const VECTOR_FIELD: [&str; 7] =
    ["type", "path", "numDimensions", "similarity", "quantization", "elements", "hnswOptions"];

/// Refuses what is not `known` of a part of a definition: left out in silence, a misspelt option would take effect nowhere.
fn only(document: Doc<'_>, known: &[&str], part: &str) -> Result<()> {
    let given = document.elements().filter(|element| !matches!(element.value(), Value::Null));
    let mut unknown = given.map(|element| element.name_str()).filter(|name| !known.contains(name));
    let Some(unknown) = unknown.next() else { return Ok(()) };
    let known = known.join("\", \"");
    Err(invalid(format!("{part} has \"{unknown}\", which is not supported: it may have \"{known}\"")))
}

/// The path of a field of this type.
fn path_of(field: Doc<'_>, kind: &str) -> Result<String> {
    let path = text(field, "path")?.ok_or_else(|| invalid(format!("a {kind} field needs a \"path\"")))?;
    if path.split('.').any(|part| part.is_empty() || part.starts_with('$')) {
        return Err(invalid(format!("\"path\" must be the name of a field, not \"{path}\"")));
    }
    Ok(path)
}

/// The definition that a field of type `vector` stands for.
fn vector_field(field: Doc<'_>) -> Result<VectorDef> {
    only(field, &VECTOR_FIELD, "a field of type \"vector\"")?;
    let path = path_of(field, "vector")?;
    let dimensions = number(field, "numDimensions", 1..=MAX_DIMENSIONS)?
        .ok_or_else(|| invalid("a vector field needs \"numDimensions\"".to_owned()))?;
    let wanted = text(field, "similarity")?.unwrap_or_default();
    let metric = SIMILARITIES.iter().find(|(name, _)| *name == wanted).map(|(_, metric)| *metric);
    let metric = metric.ok_or_else(|| {
        let names = SIMILARITIES.map(|(name, _)| name).join(", ");
        invalid(format!("\"similarity\" must be one of {names}, not \"{wanted}\""))
    })?;
    let mut def = VectorDef::new(&path, dimensions, metric);
    if let Some(wanted) = text(field, "elements")? {
        let known = ELEMENTS.iter().find(|(name, _)| *name == wanted).map(|(_, element)| *element);
        def.elements = known.ok_or_else(|| {
            let names = ELEMENTS.map(|(name, _)| name).join(", ");
            invalid(format!("\"elements\" must be one of {names}, not \"{wanted}\""))
        })?;
        if metric.is_of_bits() {
            return Err(invalid(format!(
                "\"elements\" is not for bits, which \"{}\" compares",
                similarity(metric)
            )));
        }
        def.quantization = default_quantization(metric, def.elements);
    }
    if let Some(name) = text(field, "quantization")? {
        let known = QUANTIZATIONS.iter().find(|(known, _)| *known == name).map(|(_, known)| *known);
        def.quantization = known.ok_or_else(|| {
            let names = QUANTIZATIONS.map(|(name, _)| name).join(", ");
            invalid(format!("\"quantization\" must be one of {names}, not \"{name}\""))
        })?;
    }
    match def.quantization {
        Quantization::None => {}
        _ if def.elements == Element::Int8 => {
            return Err(invalid(
                "\"quantization\" of \"int8\" elements, which take a byte each, must be \"none\"".to_owned(),
            ));
        }
        _ if metric.is_of_bits() => {
            return Err(invalid(format!("\"quantization\" of bits ({wanted}) must be \"none\"")));
        }
        few if few.few_bits().is_some() && !FewBits::is_for(metric) => {
            return Err(invalid(format!(
                "\"quantization\" under \"{wanted}\" must be \"none\" or \"scalar\""
            )));
        }
        _ => {}
    }
    match field.get("hnswOptions") {
        None | Some(Value::Null) => {}
        Some(Value::Document(options)) => {
            only(options, &["maxEdges", "numEdgeCandidates"], "\"hnswOptions\"")?;
            def.links = number(options, "maxEdges", 2..=64)?.unwrap_or(def.links);
            def.candidates = number(options, "numEdgeCandidates", 10..=3200)?.unwrap_or(def.candidates);
        }
        Some(_) => return Err(invalid("\"hnswOptions\" must be an object".to_owned())),
    }
    Ok(def)
}

/// A field that is text.
fn text(document: Doc<'_>, name: &str) -> Result<Option<String>> {
    match document.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
        Some(other) => Err(invalid(format!("\"{name}\" must be a string, but got {}", other.type_name()))),
    }
}

/// A field that is a number within limits.
fn number(document: Doc<'_>, name: &str, limits: std::ops::RangeInclusive<i64>) -> Result<Option<usize>> {
    let Some(value) = document.get(name).filter(|value| !matches!(value, Value::Null)) else {
        return Ok(None);
    };
    let number = if value.is_number() { value.as_integer() } else { None };
    match number.filter(|number| limits.contains(number)) {
        Some(number) => Ok(usize::try_from(number).ok()),
        None => {
            let (least, most) = (limits.start(), limits.end());
            Err(invalid(format!("\"{name}\" must be a whole number from {least} to {most}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(field: RawDocumentBuf) -> RawDocumentBuf {
        rawdoc! { "name": "near", "type": "vectorSearch", "definition": { "fields": [field] } }
    }

    #[test]
    fn specifications_round_trip_with_mongodbs_defaults() {
        let field = rawdoc! { "type": "vector", "path": "a.v", "numDimensions": 3, "similarity": "cosine" };
        let def = VectorDef::from_spec(&spec(field)).unwrap();
        let wanted = VectorDef { name: "near".to_owned(), ..VectorDef::new("a.v", 3, Metric::Cosine) };
        assert_eq!(def, wanted);
        for similarity in ["cosine", "dotProduct", "euclidean", "manhattan"] {
            let names = QUANTIZATIONS.iter().map(|(name, _)| *name);
            for quantization in names.take(if similarity == "manhattan" { 2 } else { 5 }) {
                let field = rawdoc! {
                    "type": "vector", "path": "v", "numDimensions": 4.0, "similarity": similarity,
                    "quantization": quantization, "hnswOptions": { "maxEdges": 20, "numEdgeCandidates": 200 },
                };
                let def = VectorDef::from_spec(&spec(field)).unwrap();
                assert_eq!((def.links, def.candidates, def.dimensions), (20, 200, 4));
                assert_eq!(quantization_name(def.quantization), quantization);
                assert_eq!(VectorDef::from_spec(&def.spec()).unwrap(), def);
                assert!(VectorDef::is_specified_by(&def.spec()) && def.is_same_as(&def).unwrap());
                assert_eq!(def.is_same_as(&wanted).unwrap_err().code, ErrorCode::IndexKeySpecsConflict);
            }
        }
    }

    #[test]
    fn fields_to_filter_by_are_kept_in_the_definition() {
        let field = || rawdoc! { "type": "vector", "path": "v", "numDimensions": 3, "similarity": "cosine" };
        let filter = |path: &str| rawdoc! { "type": "filter", "path": path };
        let spec = rawdoc! { "type": "vectorSearch", "definition": { "fields": [filter("year"), field(), filter("a.b")] } };
        let def = VectorDef::from_spec(&spec).unwrap();
        assert_eq!(def.filters, ["year", "a.b"]);
        assert_eq!(VectorDef::from_spec(&def.spec()).unwrap(), def);
        let unnamed =
            rawdoc! { "type": "vectorSearch", "definition": { "fields": [field(), { "type": "filter" }] } };
        assert!(VectorDef::from_spec(&unnamed).unwrap_err().message.contains("filter"));
    }

    #[test]
    fn a_search_index_of_several_fields_is_as_many_graphs_under_one_definition() {
        let field = |path: &str, dimensions: i32, similarity: &str, quantization: &str| {
            rawdoc! {
                "type": "vector", "path": path, "numDimensions": dimensions, "similarity": similarity,
                "quantization": quantization,
            }
        };
        let spec = |fields: &[RawDocumentBuf]| {
            let mut all = RawArrayBuf::new();
            fields.iter().for_each(|field| all.push(field.clone()));
            rawdoc! { "type": "vectorSearch", "definition": { "fields": all } }
        };
        let (a, b, c) = (
            field("a", 3, "cosine", "scalar"),
            field("b.c", 4, "euclidean", "none"),
            field("d", 64, "cosine", "binary"),
        );
        let whole = spec(&[a.clone(), rawdoc! { "type": "filter", "path": "year" }, b.clone(), c.clone()]);
        let all = VectorDef::all_from_spec(&whole).unwrap();
        assert_eq!(all.iter().map(|def| def.path.as_str()).collect::<Vec<_>>(), ["a", "b.c", "d"]);
        assert!(VectorDef::from_spec(&whole).unwrap_err().message.contains("one field"));
        for (place, def) in all.iter().enumerate() {
            assert_eq!((def.name.as_str(), def.place, def.others.len()), ("a_vectorSearch", place, 2));
            assert_eq!(def.filters, ["year"]);
            assert_eq!(def.spec(), all[0].spec());
            assert_eq!(def.all_fields(), all);
            assert_eq!(VectorDef::all_from_spec(&def.spec()).unwrap(), all);
            // As the catalog has it.
            let mut own = def.spec();
            own.append(cstr!("path"), def.path.as_str());
            assert_eq!(VectorDef::from_spec(&own).unwrap(), *def);
            for other in &all {
                assert_eq!(def.is_same_as(other).unwrap(), def.path == other.path);
                assert_eq!(def.is_same_graph(other), def.path == other.path);
            }
        }
        assert_eq!(
            (all[1].dimensions, all[1].metric, all[1].quantization),
            (4, Metric::L2, Quantization::None)
        );
        // One field less, or in another order, is another search index with the same graphs.
        for fewer in [spec(&[a.clone(), b.clone()]), spec(&[b.clone(), c, a])] {
            let mut fewer = VectorDef::all_from_spec(&fewer).unwrap();
            fewer.iter_mut().for_each(|def| def.name = "a_vectorSearch".to_owned());
            assert_eq!(all[1].is_same_as(&fewer[0]).unwrap_err().code, ErrorCode::IndexKeySpecsConflict);
            assert!(fewer.iter().all(|def| all.iter().any(|other| def.is_same_graph(other))));
        }
        let other = spec(&[field("a", 3, "cosine", "none"), b]);
        assert!(!VectorDef::all_from_spec(&other).unwrap()[0].is_same_graph(&all[0]));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let whole = || rawdoc! { "type": "vector", "path": "v", "numDimensions": 3, "similarity": "cosine" };
        let with = |name: &str, value: bson::Bson| {
            let mut field = bson::Document::try_from(&*whole()).unwrap();
            field.insert(name, value);
            spec(RawDocumentBuf::try_from(&field).unwrap())
        };
        for (spec, part) in [
            (rawdoc! { "type": "vectorSearch" }, "definition"),
            (rawdoc! { "type": "vectorSearch", "definition": {} }, "fields"),
            (rawdoc! { "type": "vectorSearch", "definition": { "fields": [] } }, "vector"),
            (
                rawdoc! { "type": "vectorSearch", "definition": { "fields": [whole(), whole()] } },
                "two of type",
            ),
            (with("type", "text".into()), "text"),
            (with("path", "a..b".into()), "a..b"),
            (with("path", bson::Bson::Null), "path"),
            (with("numDimensions", 0.into()), "numDimensions"),
            (with("numDimensions", 8193.into()), "numDimensions"),
            (with("numDimensions", "3".into()), "numDimensions"),
            (with("similarity", "l3".into()), "l3"),
            (with("quantization", "bits3".into()), "bits3"),
            (with("quantization", 1.into()), "quantization"),
            (with("hnswOptions", 5.into()), "hnswOptions"),
            (with("hnswOptions", bson::doc! { "maxEdges": 1 }.into()), "maxEdges"),
            (with("hnswOptions", bson::doc! { "maxEdge": 8 }.into()), "\"maxEdge\""),
            (with("quantisation", "none".into()), "quantisation"),
            (
                rawdoc! { "type": "vectorSearch", "definition": { "fields": [whole()], "storedSource": true } },
                "storedSource",
            ),
            (
                rawdoc! { "type": "vectorSearch", "definition": { "fields": [
                    whole(), { "type": "filter", "path": "n", "normalizer": "lowercase" },
                ] } },
                "normalizer",
            ),
        ] {
            let error = VectorDef::from_spec(&spec).unwrap_err();
            assert_eq!(error.code, ErrorCode::CannotCreateIndex, "{spec:?}");
            assert!(error.message.contains(part), "{error} does not name {part}");
        }
    }

    #[test]
    fn scores_are_those_of_mongodb() {
        let score = |metric, distance| VectorDef::new("v", 2, metric).score(distance);
        assert_eq!([0.0, 1.0, 2.0].map(|far| score(Metric::Cosine, far)), [1.0, 0.5, 0.0]);
        assert_eq!([-1.0, 0.0].map(|far| score(Metric::InnerProduct, far)), [1.0, 0.5]);
        assert_eq!([0.0, 1.0, 3.0].map(|far| score(Metric::L2, far)), [1.0, 0.5, 0.25]);
        assert_eq!([0.0, 1.0, 2.0].map(|far| score(Metric::Hamming, far)), [1.0, 0.5, 0.0]);
        assert_eq!([0.0, 1.0].map(|far| score(Metric::Jaccard, far)), [1.0, 0.0]);
    }

    #[test]
    fn elements_of_less_than_four_bytes_are_named_in_the_specification() {
        let field = |similarity: &str, elements: &str, quantization: Option<&str>| {
            let mut field = rawdoc! {
                "type": "vector", "path": "v", "numDimensions": 13, "similarity": similarity, "elements": elements,
            };
            quantization.into_iter().for_each(|name| field.append(cstr!("quantization"), name));
            VectorDef::from_spec(&spec(field))
        };
        for (name, elements) in ELEMENTS {
            for (similarity, _) in SIMILARITIES.iter().take(4) {
                for quantization in [None, Some("none"), Some("scalar")] {
                    if (elements, quantization) == (Element::Int8, Some("scalar")) {
                        let error = field(similarity, name, quantization).unwrap_err();
                        assert!(error.message.contains("int8"), "{error}");
                        continue;
                    }
                    let def = field(similarity, name, quantization).unwrap();
                    assert_eq!(def.elements, elements);
                    assert_eq!(VectorDef::from_spec(&def.spec()).unwrap(), def);
                    let other = VectorDef { elements: Element::Float32, ..def.clone() };
                    assert_eq!(def.is_same_as(&other).is_ok(), elements == Element::Float32);
                }
            }
        }
        let int8 = field("cosine", "int8", None).unwrap();
        assert!(int8.quantization == Quantization::None && int8.has_codes() && int8.codes_are_vectors());
        assert!(field("hamming", "int8", None).unwrap_err().message.contains("hamming"));
        assert!(field("cosine", "float8", None).unwrap_err().message.contains("float8"));
    }

    #[test]
    fn few_bits_are_for_metrics_of_products_and_elements_that_are_no_whole_numbers() {
        for (quantization, bits) in [("binary", 1), ("bits2", 2), ("bits4", 4)] {
            for (similarity, element, part) in [
                ("cosine", "float32", None),
                ("dotProduct", "float16", None),
                ("euclidean", "bfloat16", None),
                ("manhattan", "float32", Some("manhattan")),
                ("cosine", "int8", Some("int8")),
            ] {
                let field = rawdoc! {
                    "type": "vector", "path": "v", "numDimensions": 64, "similarity": similarity, "elements": element,
                    "quantization": quantization,
                };
                match (VectorDef::from_spec(&spec(field)), part) {
                    (Ok(def), None) => {
                        assert!(def.quantization.few_bits() == Some(bits) && def.has_codes());
                        assert!(!def.codes_are_vectors());
                        assert_eq!(VectorDef::from_spec(&def.spec()).unwrap(), def);
                    }
                    (Err(error), Some(part)) => assert!(error.message.contains(part), "{error}"),
                    (found, _) => panic!("{quantization} {similarity} {element}: {found:?}"),
                }
            }
        }
    }

    #[test]
    fn indexes_of_bits_are_not_quantized() {
        for similarity in ["hamming", "jaccard"] {
            let field = |quantization: Option<&str>| {
                let mut field =
                    rawdoc! { "type": "vector", "path": "v", "numDimensions": 13, "similarity": similarity };
                quantization.into_iter().for_each(|name| field.append(cstr!("quantization"), name));
                VectorDef::from_spec(&spec(field))
            };
            let def = field(None).unwrap();
            assert_eq!(def, field(Some("none")).unwrap());
            assert!(def.metric.is_of_bits() && def.quantization == Quantization::None);
            assert_eq!(VectorDef::from_spec(&def.spec()).unwrap(), def);
            for (name, _) in QUANTIZATIONS.iter().skip(1) {
                assert!(field(Some(name)).unwrap_err().message.contains(similarity));
            }
        }
    }
}
