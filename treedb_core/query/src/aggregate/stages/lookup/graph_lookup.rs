//! `$graphLookup`: all documents that can be reached by following references, breadth first.

use std::collections::HashSet;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::doc::key::encode_value;
use crate::doc::write::ArrayWriter;
use crate::doc::{Collation, Doc, Element, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::{Arena, Expr, Scope, check_path};
use crate::query::{Filter, Query};

use crate::aggregate::context::Context;
use crate::aggregate::operand::{document, known_fields_or, memory_exceeded, raw, required_string};
use crate::aggregate::score::Scores;
use crate::aggregate::set_value::with_value;
use crate::aggregate::stage::{PlannedStage, Reads, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream, Visitor};

use super::join::{Join, JoinValues, Matches};

/// `$graphLookup`.
#[derive(Debug)]
pub(crate) struct GraphLookup {
    from: String,
    start: Expr,
    connect_from: Path,
    connect_to: String,
    to: Path,
    max_depth: Option<u64>,
    depth_field: Option<Path>,
    restrict: Option<Filter>,
    collation: Collation,
}

impl GraphLookup {
    fn reachable(&self, document: Doc<'_>, join: &mut Join, context: &Context) -> Result<ArrayWriter> {
        let arena = Arena::new();
        let start = self.start.eval(&mut Scope::new(document, &context.globals, &arena))?;
        // The keys of the values that were followed, and of the documents that were found.
        let (mut followed, mut seen) = (HashSet::new(), HashSet::new());
        let mut frontier = JoinValues::new();
        let add = |value: Value<'_>, frontier: &mut JoinValues, followed: &mut HashSet<Vec<u8>>| {
            let mut key = Vec::new();
            self.collation.encode(value, &mut key);
            if followed.insert(key) {
                frontier.push(value);
            }
        };
        match start {
            Some(Value::Array(all)) => {
                all.elements().for_each(|element| add(element.value(), &mut frontier, &mut followed));
            }
            Some(value) => add(value, &mut frontier, &mut followed),
            None => {}
        }
        let (mut all, mut depth) = (ArrayWriter::new(), 0_u64);
        while !frontier.is_empty() && self.max_depth.is_none_or(|most| depth <= most) {
            let requested = std::mem::replace(&mut frontier, JoinValues::new()).into_bytes();
            let mut add_found = |one: &RawDocument| {
                let doc = Doc::from(one);
                let mut id = Vec::new();
                encode_value(doc.get("_id").unwrap_or(Value::Undefined), &mut id);
                if !seen.insert(id) {
                    return Ok(());
                }
                self.connect_from.visit(doc, true, &mut |value| {
                    if let Some(value) = value
                        && !matches!(value, Value::Array(_))
                    {
                        add(value, &mut frontier, &mut followed);
                    }
                    false
                });
                match &self.depth_field {
                    Some(field) => {
                        let depth = Value::Int64(i64::try_from(depth).unwrap_or(i64::MAX));
                        let one = with_value(doc, field, Some(depth))?;
                        all.push(Value::Document(Doc::from(&one)));
                    }
                    None => all.push(Value::Document(doc)),
                }
                match all.bytes() > context.memory_limit {
                    true => Err(memory_exceeded("$graphLookup", context.memory_limit)),
                    false => Ok(()),
                }
            };
            // Values are looked up one by one where that is possible; a single query finds the rest.
            let (mut rest, has_point_lookup) = (JoinValues::new(), join.has_point_lookup(context)?);
            for value in Doc::new(&requested).elements().map(|element| element.value()) {
                let found = has_point_lookup
                    && join.for_each_equal(value, None, context, &mut |one| match &self.restrict {
                        Some(restrict) if !restrict.matches(one)? => Ok(()),
                        _ => add_found(one),
                    })?;
                if !found {
                    rest.push(value);
                }
            }
            if !rest.is_empty() {
                match join.find(rest, context)? {
                    Matches::Documents(found) => {
                        for one in found {
                            if self.restrict.as_ref().map_or(Ok(true), |restrict| restrict.matches(&one))? {
                                add_found(&one)?;
                            }
                        }
                    }
                    Matches::Filter(mut filter) => {
                        if let Some(restrict) = &self.restrict {
                            filter = rawdoc! { "$and": [filter, restrict.source().to_owned()] };
                        }
                        let query = Query::new(Filter::parse(&filter)?).collated(&self.collation)?;
                        context.collections.find(&context.namespace(&self.from), query)?.for_each(
                            &mut |one| {
                                add_found(one)?;
                                Ok(Flow::Continue(()))
                            },
                        )?;
                    }
                }
            }
            depth += 1;
        }
        Ok(all)
    }
}

struct GraphLookupStream {
    stage: Arc<GraphLookup>,
    join: Join,
    context: Context,
    input: BoxedStream,
}

impl Stage for GraphLookup {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let names = &parser.names;
        const NAME: &str = "$graphLookup";
        let doc = document(stage)?;
        let known = [
            "from",
            "startWith",
            "connectFromField",
            "connectToField",
            "as",
            "maxDepth",
            "depthField",
            "restrictSearchWithMatch",
        ];
        known_fields_or(ErrorCode::Location40104, NAME, doc, &known)?;
        const CODES: (ErrorCode, ErrorCode) = (ErrorCode::Location40103, ErrorCode::Location40105);
        let path = |name: &str| {
            let path = required_string(CODES, NAME, doc, name)?;
            check_path(path)?;
            Ok::<_, crate::error::QueryError>(Path::new(path))
        };
        let start = doc.get("startWith").ok_or_else(|| {
            QueryError::new(ErrorCode::Location40105, "$graphLookup needs the field 'startWith'")
        })?;
        let max_depth = match doc.get("maxDepth") {
            None => None,
            Some(depth) => match depth.as_integer().and_then(|depth| u64::try_from(depth).ok()) {
                Some(depth) => Some(depth),
                None => {
                    let code = match (depth.as_integer(), depth.is_number()) {
                        (Some(_), _) => ErrorCode::Location40101,
                        (None, true) => ErrorCode::Location40102,
                        (None, false) => ErrorCode::Location40100,
                    };
                    return Err(QueryError::new(
                        code,
                        "$graphLookup: 'maxDepth' must be a whole number, 0 or more",
                    ));
                }
            },
        };
        let restrict = match doc.get("restrictSearchWithMatch") {
            None => None,
            Some(Value::Document(filter)) => Some(Filter::parse(raw(filter)?)?.collated(names.collation())?),
            Some(_) => {
                return Err(QueryError::new(
                    ErrorCode::Location40185,
                    "$graphLookup: 'restrictSearchWithMatch' must be a document",
                ));
            }
        };
        Ok(GraphLookup {
            from: required_string(CODES, NAME, doc, "from")?.to_owned(),
            start: Expr::parse(start, names)?,
            connect_from: path("connectFromField")?,
            connect_to: path("connectToField")?.as_str().to_owned(),
            to: path("as")?,
            max_depth,
            depth_field: if doc.get("depthField").is_some() { Some(path("depthField")?) } else { None },
            restrict,
            collation: names.collation().clone(),
        })
    }

    fn reads(&self, fields: &mut Vec<String>) -> Reads {
        let reads = self.start.reads();
        fields.extend(reads.paths.iter().map(|path| path.first().to_owned()));
        // The result keeps the place of this field among the others.
        fields.push(self.to.first().to_owned());
        if reads.whole { Reads::Any } else { Reads::Named }
    }

    fn scores(&self) -> Scores {
        Scores::Kept
    }

    fn preserves(&self, field: &str) -> bool {
        field != self.to.first()
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        let join = Join::new(context.namespace(&self.from), &self.connect_to, &self.collation);
        Ok(Box::new(GraphLookupStream { stage: self, join, context: context.clone(), input }))
    }
}

impl GraphLookupStream {
    fn joined(
        stage: &GraphLookup,
        join: &mut Join,
        context: &Context,
        doc: Doc<'_>,
    ) -> Result<RawDocumentBuf> {
        let bytes = stage.reachable(doc, join, context)?.into_bytes();
        with_value(doc, &stage.to, Some(Value::Array(Doc::new(&bytes))))
    }
}

impl DocumentStream for GraphLookupStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let GraphLookupStream { stage, join, context, input } = self;
        let Some(document) = input.next()? else { return Ok(None) };
        Self::joined(stage, join, context, Doc::from(&document)).map(Some)
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        let GraphLookupStream { stage, join, context, input } = self;
        input.for_each(&mut |document| visit(&Self::joined(stage, join, context, Doc::from(document))?))
    }
}
