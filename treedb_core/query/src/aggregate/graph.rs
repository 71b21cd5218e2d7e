//! `$graphLookup`: everything that can be reached by following references, breadth first.

use std::collections::HashSet;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::access::Flow;
use crate::doc::key::encode_value;
use crate::doc::write::ArrayWriter;
use crate::doc::{Collation, Doc, Element, Path, Value};
use crate::error::Result;
use crate::query::expr::{Arena, Expr, Names, Scope, check_path};
use crate::query::{Filter, Query};

use super::join::{Join, Joined, Values};
use super::lookup::both;
use super::pipeline::{Stage, raw};
use super::stream::{Docs, Stream, Visit};
use super::unwind::with_value;
use super::world::Context;

/// `$graphLookup`.
#[derive(Debug)]
pub(super) struct Graph {
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

impl Graph {
    pub(super) fn parse(stage: &Element<'_>, names: &Names) -> Result<Graph> {
        const NAME: &str = "$graphLookup";
        let doc = super::document(stage)?;
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
        super::only(NAME, doc, &known)?;
        let path = |name: &str| {
            let path = super::required(NAME, doc, name)?;
            check_path(path)?;
            Ok::<_, crate::error::QueryError>(Path::new(path))
        };
        let start =
            doc.get("startWith").ok_or_else(|| super::failed("$graphLookup needs the field 'startWith'"))?;
        let max_depth = match doc.get("maxDepth") {
            None => None,
            Some(depth) => match depth.as_integer().and_then(|depth| u64::try_from(depth).ok()) {
                Some(depth) => Some(depth),
                None => {
                    return Err(super::failed("$graphLookup: 'maxDepth' must be a whole number, 0 or more"));
                }
            },
        };
        let restrict = match doc.get("restrictSearchWithMatch") {
            None => None,
            Some(Value::Document(filter)) => Some(Filter::parse(raw(filter)?)?.collated(names.collation())?),
            Some(_) => {
                return Err(super::failed("$graphLookup: 'restrictSearchWithMatch' must be a document"));
            }
        };
        Ok(Graph {
            from: super::required(NAME, doc, "from")?.to_owned(),
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

    fn namespace(&self, context: &Context) -> String {
        format!("{}.{}", context.database, self.from)
    }

    fn reached(&self, document: Doc<'_>, join: &mut Join, context: &Context) -> Result<ArrayWriter> {
        let arena = Arena::new();
        let start = self.start.eval(&mut Scope::new(document, &context.globals, &arena))?;
        // Values that were followed, documents that were met.
        let (mut followed, mut met) = (HashSet::new(), HashSet::new());
        let mut frontier = Values::new();
        let add = |value: Value<'_>, frontier: &mut Values, followed: &mut HashSet<Vec<u8>>| {
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
            let asked = std::mem::replace(&mut frontier, Values::new()).into_bytes();
            let mut meet = |one: &RawDocument| {
                let doc = Doc::from(one);
                let mut id = Vec::new();
                encode_value(doc.get("_id").unwrap_or(Value::Undefined), &mut id);
                if !met.insert(id) {
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
                match all.bytes() > context.memory {
                    true => Err(super::too_much_memory("$graphLookup", context.memory)),
                    false => Ok(()),
                }
            };
            // One by one where a value leads straight to its documents; what is left is searched for together.
            let (mut left, by_value) = (Values::new(), join.is_by_value(context)?);
            for value in Doc::new(&asked).elements().map(|element| element.value()) {
                let found = by_value
                    && join.lend_one(value, None, context, &mut |one| match &self.restrict {
                        Some(restrict) if !restrict.matches(one)? => Ok(()),
                        _ => meet(one),
                    })?;
                if !found {
                    left.push(value);
                }
            }
            if !left.is_empty() {
                match join.find(left, context)? {
                    Joined::Documents(found) => {
                        for one in found {
                            if self.restrict.as_ref().map_or(Ok(true), |restrict| restrict.matches(&one))? {
                                meet(&one)?;
                            }
                        }
                    }
                    Joined::Filter(mut filter) => {
                        if let Some(restrict) = &self.restrict {
                            filter = both(filter, restrict.source());
                        }
                        let query = Query::new(Filter::parse(&filter)?).collated(&self.collation)?;
                        context.world.find(&self.namespace(context), query)?.each(&mut |one| {
                            meet(one)?;
                            Ok(Flow::Continue(()))
                        })?;
                    }
                }
            }
            depth += 1;
        }
        Ok(all)
    }
}

struct Reaching {
    stage: Arc<Graph>,
    join: Join,
    context: Context,
    input: Docs,
}

impl Stage for Graph {
    fn reads(&self, names: &mut Vec<String>) -> Option<()> {
        let reads = self.start.reads();
        names.extend(reads.paths.iter().map(|path| path.first().to_owned()));
        // What is found takes its place.
        names.push(self.to.first().to_owned());
        (!reads.whole).then_some(())
    }

    fn leaves(&self, name: &str) -> bool {
        name != self.to.first()
    }

    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        let join = Join::new(self.namespace(context), &self.connect_to, &self.collation);
        Ok(Box::new(Reaching { stage: self, join, context: context.clone(), input }))
    }
}

impl Reaching {
    fn one(stage: &Graph, join: &mut Join, context: &Context, doc: Doc<'_>) -> Result<RawDocumentBuf> {
        let bytes = stage.reached(doc, join, context)?.into_bytes();
        with_value(doc, &stage.to, Some(Value::Array(Doc::new(&bytes))))
    }
}

impl Stream for Reaching {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Reaching { stage, join, context, input } = self;
        let Some(document) = input.next()? else { return Ok(None) };
        Self::one(stage, join, context, Doc::from(&document)).map(Some)
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let Reaching { stage, join, context, input } = self;
        input.each(&mut |document| visit(&Self::one(stage, join, context, Doc::from(document))?))
    }
}
