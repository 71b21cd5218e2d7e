//! `$lookup` in all its forms, and `$unionWith`.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::doc::{Collation, Doc, Element, Fields, OwnedValue, Path, Value};
use crate::error::Result;
use crate::query::expr::{Arena, Expr, Globals, Scope, check_path, check_variable};

use super::join::{Join, Joined, Values};
use super::looking::Looking;
use super::pipeline::{Node, Parser, Pipeline, Stage};
use super::reorder;
use super::shape::Match;
use super::stream::{Docs, List, Stream};
use super::world::Context;

/// `$lookup`.
#[derive(Debug)]
pub(super) struct Lookup {
    from: String,
    pub(super) to: Path,
    /// Own field and the other collection's.
    fields: Option<(Path, String)>,
    variables: Vec<Expr>,
    pipeline: Pipeline,
    collation: Collation,
}

impl Lookup {
    pub(super) fn parse(stage: &Element<'_>, parser: &Parser) -> Result<Lookup> {
        let doc = super::document(stage)?;
        super::only("$lookup", doc, &["from", "as", "localField", "foreignField", "let", "pipeline"])?;
        let to = super::required("$lookup", doc, "as")?;
        check_path(to)?;
        let local = super::string("$lookup", doc, "localField")?;
        let foreign = super::string("$lookup", doc, "foreignField")?;
        let fields = match (local, foreign) {
            (Some(local), Some(foreign)) => {
                check_path(local)?;
                check_path(foreign)?;
                Some((Path::new(local), foreign.to_owned()))
            }
            (None, None) => None,
            _ => {
                return Err(super::failed(
                    "$lookup requires both or neither of 'localField' and 'foreignField'",
                ));
            }
        };
        let (mut names, mut variables) = (parser.names.globals().to_vec(), Vec::new());
        match doc.get("let") {
            None => {}
            Some(Value::Document(given)) => {
                for variable in given.elements() {
                    check_variable(variable.name_str())?;
                    variables.push(Expr::parse(variable.value(), &parser.names)?);
                    names.push(variable.name_str().to_owned());
                }
            }
            Some(_) => return Err(super::failed("$lookup: 'let' must be a document")),
        }
        let stages = doc.get("pipeline");
        if stages.is_none() && fields.is_none() {
            return Err(super::failed("$lookup needs 'localField' and 'foreignField', or a 'pipeline'"));
        }
        let empty = Doc::EMPTY;
        let pipeline =
            parser.within(parser.names.renamed(names))?.pipeline(stages.unwrap_or(Value::Array(empty)))?;
        // Without a collection the pipeline begins with documents of its own.
        let from = match super::string("$lookup", doc, "from")? {
            Some(from) => from.to_owned(),
            None if pipeline.has_source() => String::new(),
            None => return Err(super::failed("$lookup needs the field 'from'")),
        };
        let collation = parser.names.collation().clone();
        Ok(Lookup { from, to: Path::new(to), fields, variables, pipeline, collation })
    }

    /// The other collection's documents for one of this.
    fn found(&self, document: Doc<'_>, join: Option<(&mut Join, Values)>, context: &Context) -> Result<Docs> {
        let arena = Arena::new();
        let mut scope = Scope::new(document, &context.globals, &arena);
        let mut values = context.globals.values.clone();
        for variable in &self.variables {
            values.push(variable.eval(&mut scope)?.map(OwnedValue::from_value));
        }
        let inner = context.with_globals(Globals { now: context.globals.now, values });
        let namespace = self.namespace(context);
        match join {
            Some((join, values)) => match join.find(values, context)? {
                Joined::Documents(found) => self.pipeline.open_over(Box::new(List::new(found)), &inner),
                Joined::Filter(filter) => {
                    let filter = Node::Match(Arc::new(Match::of(&filter, &self.collation)?));
                    self.pipeline.behind(filter).open(&namespace, &inner)
                }
            },
            None => self.pipeline.open(&namespace, &inner),
        }
    }

    /// Shows the other collection's documents for one of this.
    pub(super) fn each(
        &self,
        document: Doc<'_>,
        join: &mut Option<Join>,
        fields: Option<&Fields>,
        context: &Context,
        show: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<()> {
        let join = match (&self.fields, join) {
            (Some((local, _)), Some(join)) if self.pipeline.is_empty() => {
                // Nearly always there is one value, which lies in the document itself.
                if local.parts().len() == 1
                    && let Some(value) = document.get(local.as_str())
                    && !matches!(value, Value::Array(_))
                    && join.lend_one(value, fields, context, show)?
                {
                    return Ok(());
                }
                match join.lend(join_values(document, local), fields, context, show)? {
                    None => return Ok(()),
                    Some(values) => Some((join, values)),
                }
            }
            (Some((local, _)), Some(join)) => Some((join, join_values(document, local))),
            _ => None,
        };
        self.found(document, join, context)?.each(&mut |one| {
            show(one)?;
            Ok(Flow::Continue(()))
        })
    }

    fn namespace(&self, context: &Context) -> String {
        format!("{}.{}", context.database, self.from)
    }
}

/// The values at `local` that a document is joined by. Where nothing is found there, null is.
fn join_values(document: Doc<'_>, local: &Path) -> Values {
    let mut values = Values::new();
    local.visit(document, false, &mut |found| {
        match found {
            Some(Value::Array(array)) => array.elements().for_each(|element| values.push(element.value())),
            Some(value) => values.push(value),
            None => {}
        }
        false
    });
    if values.is_empty() {
        values.push(Value::Null);
    }
    values
}

impl Stage for Lookup {
    fn reads(&self, names: &mut Vec<String>) -> Option<()> {
        for variable in &self.variables {
            let reads = variable.reads();
            if reads.whole {
                return None;
            }
            names.extend(reads.paths.iter().map(|path| path.first().to_owned()));
        }
        names.extend(self.fields.iter().map(|(local, _)| local.first().to_owned()));
        // What is found takes its place.
        names.push(self.to.first().to_owned());
        Some(())
    }

    fn leaves(&self, name: &str) -> bool {
        name != self.to.first()
    }

    fn is_apart(&self) -> bool {
        self.fields.is_some() && self.variables.is_empty() && self.pipeline.is_empty()
    }

    fn open_before(self: Arc<Self>, rest: &[Node], input: Docs, context: &Context) -> Result<(Docs, usize)> {
        let join =
            |(_, foreign): &(Path, String)| Join::new(self.namespace(context), foreign, &self.collation);
        let join = self.fields.as_ref().map(join);
        // An array that is taken apart at once is not made.
        let unwind = match rest.first() {
            Some(Node::Other(stage, _)) => stage.unwinds(&self.to),
            _ => None,
        };
        let fields = match unwind {
            Some(_) if self.pipeline.is_empty() && self.to.parts().len() == 1 => {
                reorder::below(rest.get(1..).unwrap_or_default(), self.to.first())
            }
            _ => None,
        };
        let fields = fields.map(|fields| Fields::new(fields.iter().map(|field| field.as_bytes())));
        let taken = usize::from(unwind.is_some());
        Ok((Box::new(Looking::new(self, join, unwind, fields, input, context)), taken))
    }

    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        self.open_before(&[], input, context).map(|(docs, _)| docs)
    }
}

/// `$unionWith`.
#[derive(Debug)]
pub(super) struct Union {
    from: String,
    pipeline: Pipeline,
}

impl Union {
    pub(super) fn parse(stage: &Element<'_>, parser: &Parser) -> Result<Union> {
        let inner = parser.within(parser.names.clone())?;
        if let Value::String(from) = stage.value() {
            let from = std::str::from_utf8(from).unwrap_or_default().to_owned();
            return Ok(Union { from, pipeline: inner.pipeline(Value::Array(Doc::EMPTY))? });
        }
        let doc = super::document(stage)?;
        super::only("$unionWith", doc, &["coll", "pipeline"])?;
        let pipeline = inner.pipeline(doc.get("pipeline").unwrap_or(Value::Array(Doc::EMPTY)))?;
        let from = match super::string("$unionWith", doc, "coll")? {
            Some(from) => from.to_owned(),
            None if pipeline.has_source() => String::new(),
            None => return Err(super::failed("$unionWith needs the field 'coll'")),
        };
        Ok(Union { from, pipeline })
    }
}

struct United {
    first: Option<Docs>,
    second: Docs,
}

impl Stage for Union {
    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        let namespace = format!("{}.{}", context.database, self.from);
        let second = self.pipeline.open(&namespace, context)?;
        Ok(Box::new(United { first: Some(input), second }))
    }
}

impl Stream for United {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(first) = &mut self.first {
            if let Some(document) = first.next()? {
                return Ok(Some(document));
            }
            self.first = None;
        }
        self.second.next()
    }
}

/// Both filters at once.
pub(super) fn both(a: RawDocumentBuf, b: &RawDocument) -> RawDocumentBuf {
    rawdoc! { "$and": [a, b.to_owned()] }
}
