//! `$lookup` in all its forms, and `$unionWith`.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::code::Result;
use crate::doc::write::ArrayWriter;
use crate::doc::{Collation, Doc, Element, OwnedValue, Path, Value};
use crate::query::expr::{Arena, Expr, Globals, Scope, check_path, check_variable};

use super::join::{Join, Joined, Values};
use super::pipeline::{Node, Parser, Pipeline, Stage};
use super::shape::Match;
use super::stream::{Docs, List, Stream};
use super::unwind::with_value;
use super::world::Context;

/// `$lookup`.
#[derive(Debug)]
pub(super) struct Lookup {
    from: String,
    to: Path,
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

    /// Adds the other collection's documents for one of this to an array.
    fn collect(
        &self,
        document: Doc<'_>,
        join: &mut Option<Join>,
        context: &Context,
        all: &mut ArrayWriter,
    ) -> Result<()> {
        let mut push = |one: &RawDocument| {
            all.push(Value::Document(Doc::from(one)));
            match all.bytes() > context.memory {
                true => Err(super::too_much_memory("$lookup (the documents found for one)", context.memory)),
                false => Ok(()),
            }
        };
        let join = match (&self.fields, join) {
            (Some((local, _)), Some(join)) => {
                let values = join_values(document, local);
                match self.pipeline.is_empty() {
                    true => match join.lend(values, context, &mut push)? {
                        None => return Ok(()),
                        Some(values) => Some((join, values)),
                    },
                    false => Some((join, values)),
                }
            }
            _ => None,
        };
        let mut found = self.found(document, join, context)?;
        while let Some(one) = found.next()? {
            push(&one)?;
        }
        Ok(())
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

struct Looking {
    stage: Arc<Lookup>,
    join: Option<Join>,
    context: Context,
    input: Docs,
}

impl Stage for Lookup {
    fn leaves(&self, name: &str) -> bool {
        name != self.to.first()
    }

    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        let join =
            |(_, foreign): &(Path, String)| Join::new(self.namespace(context), foreign, &self.collation);
        let join = self.fields.as_ref().map(join);
        Ok(Box::new(Looking { stage: self, join, context: context.clone(), input }))
    }
}

impl Stream for Looking {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(document) = self.input.next()? else { return Ok(None) };
        let doc = Doc::from(&document);
        let mut all = ArrayWriter::new();
        self.stage.collect(doc, &mut self.join, &self.context, &mut all)?;
        let bytes = all.into_bytes();
        with_value(doc, &self.stage.to, Some(Value::Array(Doc::new(&bytes)))).map(Some)
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
pub(super) fn both(a: RawDocumentBuf, b: &RawDocumentBuf) -> RawDocumentBuf {
    rawdoc! { "$and": [a, b.clone()] }
}
