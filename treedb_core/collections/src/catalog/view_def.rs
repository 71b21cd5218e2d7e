//! Views: names that stand for a pipeline over a collection or another view.
//!
//! A view has an entry in the table `catalog`, as a collection has. It is a BSON document whose first field tells the two apart:
//!
//! ```text
//! { view: true, v: 8, options: { viewOn: string, pipeline: [document], collation: document? } }
//! ```
//!
//! Reading a view's entry as a collection's is `CommandNotSupportedOnView`, so that whatever does not know views refuses them.

use bson::{Bson, Document, RawArrayBuf, RawDocument, RawDocumentBuf, doc};

use treedb_query::aggregate::Pipeline;
use treedb_query::doc::{Collation, Doc, Value};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::expr::Names;

use crate::catalog::meta::{VERSION_KINDS, collation_of};
use crate::catalog::namespace::Namespace;

/// Views on views, and pipelines within pipelines.
pub(crate) const MAX_DEPTH: usize = 20;
/// Bytes of a view's pipeline with those of the views below it.
pub(crate) const MAX_PIPELINE: usize = 16 << 20;

/// How the entry of a view begins, behind its length: a field `view` that is a boolean.
const PREFIX: &[u8] = b"\x08view\0";

/// True for the entry of a view.
pub(crate) fn is_view(entry: &[u8]) -> bool {
    entry.get(4..).is_some_and(|fields| fields.starts_with(PREFIX))
}

/// The error of what needs a collection.
pub(crate) fn not_a_collection(namespace: &Namespace) -> QueryError {
    QueryError::new(
        ErrorCode::CommandNotSupportedOnView,
        format!("Namespace {namespace} is a view, not a collection"),
    )
}

/// True for the error of something that needs a collection and was told a view.
pub(crate) fn is_about_a_view(error: &QueryError) -> bool {
    error.code == ErrorCode::CommandNotSupportedOnView
}

/// A view.
#[derive(Debug, Clone)]
pub(crate) struct ViewDef {
    pub(crate) namespace: Namespace,
    /// The collection or view whose documents go into its pipeline, in the same database.
    pub(crate) on: Namespace,
    pub(crate) pipeline: Vec<Document>,
    pub(crate) collation: Collation,
    /// As they are listed.
    pub(crate) options: Document,
}

impl ViewDef {
    /// Reads the options of `create`.
    ///
    /// # Errors
    /// `InvalidOptions` for options that only collections have, `OptionNotSupportedOnView` for a pipeline that writes; those of the pipeline.
    pub(crate) fn new(namespace: Namespace, mut options: Document) -> Result<Self> {
        const OWN: &[&str] = &["viewOn", "pipeline", "collation"];
        if let Some(other) = options.keys().find(|name| !OWN.contains(&name.as_str())) {
            return Err(QueryError::new(
                ErrorCode::InvalidOptions,
                format!("the option '{other}' is not allowed for a view"),
            ));
        }
        options.entry("pipeline".to_owned()).or_insert_with(|| Bson::Array(Vec::new()));
        let collation = collation_of(&options)?;
        match collation.document() {
            Some(whole) => drop(options.insert("collation", Document::try_from(whole)?)),
            None => drop(options.remove("collation")),
        }
        let view = Self::of(namespace, options, collation)?;
        let parsed = Pipeline::parse(Value::Array(Doc::from(&*view.stages()?)), &Names::default())?;
        if parsed.writes() {
            return Err(QueryError::new(
                ErrorCode::OptionNotSupportedOnView,
                format!(
                    "The pipeline of the view {} may not write: $out and $merge are not allowed",
                    view.namespace
                ),
            ));
        }
        Ok(view)
    }

    fn of(namespace: Namespace, options: Document, collation: Collation) -> Result<Self> {
        let wrong = |option: &str, wanted: &str| {
            QueryError::new(
                ErrorCode::TypeMismatch,
                format!("the option '{option}' of a view must be {wanted}"),
            )
        };
        let on = options.get_str("viewOn").map_err(|_| wrong("viewOn", "a string"))?;
        let on = Namespace::new(namespace.database(), on)?;
        let stages = options.get_array("pipeline").map_err(|_| wrong("pipeline", "an array"))?;
        let pipeline = stages
            .iter()
            .map(|stage| {
                stage.as_document().cloned().ok_or_else(|| wrong("pipeline", "an array of documents"))
            })
            .collect::<Result<_>>()?;
        Ok(ViewDef { namespace, on, pipeline, collation, options })
    }

    /// Reads an entry for which [`is_view`] is true.
    ///
    /// # Errors
    /// `InternalError` if it is damaged or of a newer version.
    pub(crate) fn decode(namespace: &Namespace, entry: &[u8]) -> Result<Self> {
        let damaged = |what: String| {
            QueryError::new(
                ErrorCode::InternalError,
                format!(
                    "the catalog entry of the view {namespace} is damaged ({what}): restore the database from a backup"
                ),
            )
        };
        let entry = Document::from_reader(entry).map_err(|error| damaged(error.to_string()))?;
        match entry.get_i32("v") {
            Ok(VERSION_KINDS) => {}
            other => {
                return Err(QueryError::new(
                    ErrorCode::InternalError,
                    format!(
                        "the view {namespace} was written by a newer TreeDB (entry {other:?}): use that version"
                    ),
                ));
            }
        }
        let options = entry.get_document("options").map_err(|error| damaged(error.to_string()))?.clone();
        let collation = collation_of(&options)?;
        Self::of(namespace.clone(), options, collation).map_err(|error| damaged(error.message))
    }

    /// Encodes the entry.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        Ok(doc! { "view": true, "v": VERSION_KINDS, "options": self.options.clone() }.to_vec()?)
    }

    /// The pipeline as a document of its stages.
    fn stages(&self) -> Result<RawDocumentBuf> {
        stages_of(&self.pipeline)
    }

    /// The collections and views that the pipeline reads beside [`Self::on`], and that.
    pub(crate) fn reads(&self) -> Vec<Namespace> {
        let mut found = vec![self.on.clone()];
        for stage in &self.pipeline {
            collect_reads(stage, self.namespace.database(), 0, &mut found);
        }
        found
    }
}

/// Adds the collections that a stage reads. What is not well-formed reads nothing: the parser refuses it.
fn collect_reads(stage: &Document, database: &str, depth: usize, found: &mut Vec<Namespace>) {
    if depth > MAX_DEPTH {
        return;
    }
    let mut add = |name: Option<&str>| {
        found.extend(name.and_then(|name| Namespace::new(database, name).ok()));
    };
    let mut nested = Vec::new();
    for (name, spec) in stage {
        match (name.as_str(), spec) {
            ("$unionWith", Bson::String(from)) => add(Some(from)),
            ("$lookup" | "$graphLookup" | "$unionWith", Bson::Document(spec)) => {
                add(spec.get_str("from").or_else(|_| spec.get_str("coll")).ok());
                nested.extend(spec.get_array("pipeline").ok());
            }
            ("$facet", Bson::Document(facets)) => nested.extend(facets.values().filter_map(Bson::as_array)),
            _ => {}
        }
    }
    for stage in nested.into_iter().flatten().filter_map(Bson::as_document) {
        collect_reads(stage, database, depth + 1, found);
    }
}

/// An array of stages as raw BSON.
pub(crate) fn stages_of(stages: &[Document]) -> Result<RawDocumentBuf> {
    let mut all = RawArrayBuf::new();
    for stage in stages {
        all.push(RawDocumentBuf::try_from(stage)?);
    }
    Ok(RawDocument::from_bytes(all.as_bytes())?.to_owned())
}

/// What reading a view comes to: a pipeline over a collection.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedView {
    pub(crate) source: Namespace,
    pub(crate) stages: Vec<Document>,
    pub(crate) collation: Collation,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_of_a_view_is_read_back_and_told_from_that_of_a_collection() {
        let name = Namespace::parse("a.view").unwrap();
        let options = doc! { "viewOn": "c", "pipeline": [{ "$match": { "a": 1 } }, { "$lookup": {
        "from": "d", "localField": "a", "foreignField": "b", "as": "x", "pipeline": [{ "$unionWith": "e" }] } }] };
        let view = ViewDef::new(name.clone(), options.clone()).unwrap();
        let entry = view.encode().unwrap();
        assert!(is_view(&entry) && !is_view(&doc! { "v": 1, "view": true }.to_vec().unwrap()));
        let read = ViewDef::decode(&name, &entry).unwrap();
        assert_eq!(read.options, options);
        let reads: Vec<_> = read.reads().into_iter().map(|name| name.to_string()).collect();
        assert_eq!(reads, ["a.c", "a.d", "a.e"]);
        assert!(ViewDef::decode(&name, &entry[..entry.len() - 1]).is_err());
    }

    #[test]
    fn views_that_write_or_have_other_options_are_refused() {
        let code =
            |options: Document| ViewDef::new(Namespace::parse("a.view").unwrap(), options).unwrap_err().code;
        assert_eq!(
            code(doc! { "viewOn": "c", "pipeline": [{ "$out": "d" }] }),
            ErrorCode::OptionNotSupportedOnView
        );
        assert_eq!(code(doc! { "viewOn": "c", "validator": {} }), ErrorCode::InvalidOptions);
        assert_eq!(code(doc! { "viewOn": "c", "pipeline": [{ "$no": 1 }] }), ErrorCode::Location40324);
        assert_eq!(code(doc! { "viewOn": 5 }), ErrorCode::TypeMismatch);
        assert_eq!(code(doc! { "viewOn": "" }), ErrorCode::InvalidNamespace);
    }
}
