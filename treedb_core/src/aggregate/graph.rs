//! `$graphLookup`: everything that can be reached by following references, breadth first.

use std::collections::HashSet;
use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::code::Result;
use crate::doc::key::encode_value;
use crate::doc::write::ArrayWriter;
use crate::doc::{Collation, Doc, Element, Path, Value};
use crate::query::expr::{Arena, Expr, Names, Scope, check_path};
use crate::query::{Filter, Query};

use super::join::{Join, Joined, Values};
use super::lookup::both;
use super::pipeline::{Stage, raw};
use super::stream::{Docs, List, Stream};
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
    restrict: Option<RawDocumentBuf>,
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
            Ok::<_, crate::code::QueryError>(Path::new(path))
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
            Some(Value::Document(filter)) => {
                Filter::parse(raw(filter)?)?;
                Some(raw(filter)?.to_owned())
            }
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
            let mut found = match join.find(std::mem::replace(&mut frontier, Values::new()), context)? {
                Joined::Documents(mut found) => {
                    if let Some(restrict) = &self.restrict {
                        let filter = Filter::parse(restrict)?.collated(&self.collation)?;
                        let mut kept = Vec::new();
                        for one in found {
                            if filter.matches(&one)? {
                                kept.push(one);
                            }
                        }
                        found = kept;
                    }
                    Box::new(List::new(found))
                }
                Joined::Filter(mut filter) => {
                    if let Some(restrict) = &self.restrict {
                        filter = both(filter, restrict);
                    }
                    let query = Query::new(Filter::parse(&filter)?).collated(&self.collation)?;
                    context.world.find(&self.namespace(context), query)?
                }
            };
            while let Some(one) = found.next()? {
                let doc = Doc::from(&one);
                let mut id = Vec::new();
                encode_value(doc.get("_id").unwrap_or(Value::Undefined), &mut id);
                if !met.insert(id) {
                    continue;
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
                if all.bytes() > context.memory {
                    return Err(super::too_much_memory("$graphLookup", context.memory));
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
    fn leaves(&self, name: &str) -> bool {
        name != self.to.first()
    }

    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        let join = Join::new(self.namespace(context), &self.connect_to, &self.collation);
        Ok(Box::new(Reaching { stage: self, join, context: context.clone(), input }))
    }
}

impl Stream for Reaching {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(document) = self.input.next()? else { return Ok(None) };
        let doc = Doc::from(&document);
        let bytes = self.stage.reached(doc, &mut self.join, &self.context)?.into_bytes();
        with_value(doc, &self.stage.to, Some(Value::Array(Doc::new(&bytes)))).map(Some)
    }
}
