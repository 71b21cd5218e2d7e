//! `$geoNear`: begins a pipeline with documents by the distance of their locations from a point, the nearest first.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::doc::{Doc, Element, Path, Value, shown};
use crate::error::{ErrorCode, QueryError, Result};
use crate::geo::{Grid, Near, Work, number};
use crate::query::expr::{Arena, Globals, check_names};
use crate::query::{Filter, Query, interrupt};

use crate::aggregate::context::Context;
use crate::aggregate::operand::{document, failed, known_fields, raw};
use crate::aggregate::predicate::Predicate;
use crate::aggregate::set_value::with_value;
use crate::aggregate::stage::{PlannedStage, Role, Source, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream, VecStream};

const NAME: &str = "$geoNear";

/// `$geoNear`.
#[derive(Debug)]
pub(crate) struct GeoNear {
    near: Near,
    /// The field of the locations; `None` if an index tells.
    key: Option<Path>,
    /// The documents that may be returned.
    query: Arc<Predicate>,
    /// The operand, which the search shows as its filter.
    operand: RawDocumentBuf,
    added: Arc<Added>,
}

/// What is added to each document.
#[derive(Debug)]
struct Added {
    /// Where its distance goes.
    distance: Path,
    /// Distances are multiplied by this.
    multiplier: f64,
    /// Where the nearest location goes.
    location: Option<Path>,
}

/// The path in a field of the operand.
fn path(operand: Doc<'_>, name: &str, code: ErrorCode) -> Result<Option<Path>> {
    match operand.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => {
            let text = String::from_utf8_lossy(text);
            check_names(&text)?;
            Ok(Some(Path::new(&text)))
        }
        Some(other) => Err(QueryError::new(
            code,
            format!("{NAME} requires that the '{name}' option is a String, found {}", other.type_name()),
        )),
    }
}

/// A number in a field of the operand that is not negative.
fn distance(operand: Doc<'_>, name: &str, otherwise: f64) -> Result<f64> {
    match operand.get(name).map(|value| (number(value), value.type_name())) {
        None => Ok(otherwise),
        Some((Some(number), _)) if number >= 0.0 => Ok(number),
        Some((Some(_), _)) => {
            Err(QueryError::bad_value(format!("{NAME} requires that '{name}' is non-negative")))
        }
        Some((None, found)) => Err(QueryError::new(
            ErrorCode::TypeMismatch,
            format!("{NAME} requires that '{name}' is a number, found {found}"),
        )),
    }
}

impl Stage for GeoNear {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let operand = document(stage)?;
        let fields = [
            "near",
            "distanceField",
            "distanceMultiplier",
            "includeLocs",
            "key",
            "maxDistance",
            "minDistance",
            "query",
            "spherical",
        ];
        known_fields(NAME, operand, &fields)?;
        let point = match operand.get("near") {
            Some(point @ (Value::Array(_) | Value::Document(_))) => point,
            _ => {
                let message = format!("{NAME} requires a 'near' option as an Array or Object");
                return Err(QueryError::new(ErrorCode::Location16605, message));
            }
        };
        let on_sphere = operand.get("spherical").is_some_and(|spherical| spherical.truthy());
        let near = Near::of_point(point, on_sphere, &Work::new(&interrupt::check))?.between(
            distance(operand, "minDistance", 0.0)?,
            distance(operand, "maxDistance", f64::INFINITY)?,
        );
        let query = match operand.get("query") {
            None => Predicate::parse(Doc::EMPTY, &parser.names)?,
            Some(Value::Document(query)) => Predicate::parse(query, &parser.names)?,
            Some(other) => {
                return Err(QueryError::new(
                    ErrorCode::TypeMismatch,
                    format!("{NAME} requires that 'query' is an object, found {}", other.type_name()),
                ));
            }
        };
        let multiplier = distance(operand, "distanceMultiplier", 1.0)?;
        let Some(distance) = path(operand, "distanceField", ErrorCode::Location16606)? else {
            let message = format!("{NAME} requires a 'distanceField' option as a String");
            return Err(QueryError::new(ErrorCode::Location16606, message));
        };
        let location = path(operand, "includeLocs", ErrorCode::Location16607)?;
        Ok(GeoNear {
            near,
            key: path(operand, "key", ErrorCode::TypeMismatch)?,
            query: Arc::new(query),
            operand: raw(operand)?.to_owned(),
            added: Arc::new(Added { distance, multiplier, location }),
        })
    }

    fn open(self: Arc<Self>, _: BoxedStream, _: &[PlannedStage], _: &Context) -> Result<BoxedStream> {
        Err(failed("a stage that begins a pipeline cannot stand within one"))
    }

    fn role(&self) -> Role<'_> {
        Role::Source(self)
    }
}

impl GeoNear {
    /// The field of the only index that can serve the search.
    fn indexed(&self, indexes: Vec<(Path, Grid)>) -> Result<Path> {
        if indexes.is_empty() {
            let message = format!("{NAME} requires a 2d or 2dsphere index, but none were found");
            return Err(QueryError::new(ErrorCode::IndexNotFound, message));
        }
        for (kind, is_kind) in [("2d", false), ("2dsphere", true)] {
            let fits =
                |(_, grid): &&(Path, Grid)| (*grid == Grid::Sphere) == is_kind && self.near.is_for(grid);
            let mut paths = indexes.iter().filter(fits).map(|(path, _)| path);
            if let Some(only) = paths.next() {
                if paths.any(|other| other != only) {
                    return Err(QueryError::new(
                        ErrorCode::IndexNotFound,
                        format!(
                            "There is more than one {kind} index; unsure which to use for {NAME}: name its field as 'key'"
                        ),
                    ));
                }
                return Ok(only.clone());
            }
        }
        Err(QueryError::new(
            ErrorCode::NoQueryExecutionPlans,
            "unable to find index for $geoNear query: a pair of coordinates with spherical: false needs a 2d index, GeoJSON \
             a 2dsphere index",
        ))
    }
}

impl Source for GeoNear {
    fn open_source(&self, namespace: &str, _: &[PlannedStage], context: &Context) -> Result<BoxedStream> {
        let Some(indexes) = context.collections.indexed_locations(namespace)? else {
            return Ok(Box::new(VecStream::new(Vec::new())));
        };
        let path = match &self.key {
            Some(key) => key.clone(),
            None => self.indexed(indexes)?,
        };
        let shown = {
            let mut all = crate::doc::write::Writer::new(64);
            all.value(NAME.as_bytes(), Value::Document(Doc::from(&self.operand)));
            all.finish()
        };
        let mut filter = Filter::all();
        for condition in self.query.planner_filters(&context.globals) {
            filter = filter.and(Filter::parse(&condition)?);
        }
        let query = Query::new(filter).collated(self.query.collation())?;
        let filter = query.filter.clone().nearest(path.clone(), self.near.clone(), shown);
        let found = context.collections.find(namespace, Query { filter, ..query })?;
        let found: BoxedStream = match self.query.has_expressions() {
            false => found,
            true => {
                let (query, globals) = (Arc::clone(&self.query), Arc::clone(&context.globals));
                Box::new(Fitting { found, query, globals, arena: Arena::new() })
            }
        };
        let (near, added) = (self.near.clone(), Arc::clone(&self.added));
        Ok(Box::new(NearStream { found, path, near, added }))
    }

    fn needs_collection(&self) -> bool {
        true
    }
}

/// Those of the documents that the expressions of the query are true of.
struct Fitting {
    found: BoxedStream,
    query: Arc<Predicate>,
    globals: Arc<Globals>,
    arena: Arena,
}

impl DocumentStream for Fitting {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while let Some(document) = self.found.next()? {
            if self.query.matches(&document, &self.globals, &mut self.arena)? {
                return Ok(Some(document));
            }
        }
        Ok(None)
    }
}

/// The documents that were found, with their distances.
struct NearStream {
    found: BoxedStream,
    path: Path,
    near: Near,
    added: Arc<Added>,
}

impl DocumentStream for NearStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(document) = self.found.next()? else { return Ok(None) };
        let doc = Doc::from(&document);
        let work = Work::new(&interrupt::check);
        let Some((distance, location)) = self.near.nearest(&self.path, doc, &work)? else {
            return Err(failed(format!("{NAME}: {} has no location any more", shown(Value::Document(doc)))));
        };
        let distance = Value::Double(self.near.in_units(distance) * self.added.multiplier);
        let mut made = with_value(doc, &self.added.distance, Some(distance))?;
        if let Some(path) = &self.added.location {
            made = with_value(Doc::from(&made), path, Some(location))?;
        }
        Ok(Some(made))
    }
}
