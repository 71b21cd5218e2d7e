//! `$lookup` in all its forms, and `$graphLookup`, which finds documents in the same way ([`join`]).

mod graph_lookup;
mod join;
mod lookup_stream;

pub(crate) use graph_lookup::GraphLookup;

use std::sync::Arc;

use bson::RawDocument;

use crate::access::Flow;
use crate::doc::{Collation, Doc, Element, Fields, OwnedValue, Path, Value};
use crate::error::{ErrorCode, Result};
use crate::query::expr::{Arena, Expr, Globals, Scope, check_path, check_variable};

use crate::aggregate::context::Context;
use crate::aggregate::following::subfields_needed;
use crate::aggregate::operand::{document, failed, known_fields_or, optional_string, required_string};
use crate::aggregate::pipeline::Pipeline;
use crate::aggregate::predicate::Predicate;
use crate::aggregate::score::Scores;
use crate::aggregate::stage::{PlannedStage, Reads, Stage, StageParser, UnwindOptions};
use crate::aggregate::stages::Match;
use crate::aggregate::stream::{BoxedStream, VecStream};

use join::{Join, JoinValues, Matches};
use lookup_stream::LookupStream;

/// `$lookup`.
#[derive(Debug)]
pub(crate) struct Lookup {
    from: String,
    to: Path,
    /// `localField` and `foreignField`.
    fields: Option<(Path, String)>,
    variables: Vec<Expr>,
    pipeline: Pipeline,
    collation: Collation,
}

impl Lookup {
    /// The documents of the other collection for `document`, which `join` finds by these values.
    fn open_foreign(
        &self,
        document: Doc<'_>,
        join: Option<(&mut Join, JoinValues)>,
        context: &Context,
    ) -> Result<BoxedStream> {
        let arena = Arena::new();
        let mut scope = Scope::new(document, &context.globals, &arena);
        let mut values = context.globals.values.clone();
        for variable in &self.variables {
            values.push(variable.eval(&mut scope)?.map(OwnedValue::from_value));
        }
        let inner = context.with_globals(Globals { now: context.globals.now, values, ..Globals::default() });
        let namespace = context.namespace(&self.from);
        match join {
            Some((join, values)) => match join.find(values, context)? {
                Matches::Documents(found) => self.pipeline.open_over(Box::new(VecStream::new(found)), &inner),
                Matches::Filter(filter) => {
                    let predicate = Predicate::from_filter(&filter, &self.collation)?;
                    self.pipeline.preceded_by(Arc::new(Match::new(predicate))).open(&namespace, &inner)
                }
            },
            None => self.pipeline.open(&namespace, &inner),
        }
    }

    /// Calls `visit` with each document of the other collection for `document`.
    fn for_each_foreign(
        &self,
        document: Doc<'_>,
        join: &mut Option<Join>,
        subfields: Option<&Fields>,
        context: &Context,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<()> {
        let join = match (&self.fields, join) {
            (Some((local, _)), Some(join)) if self.pipeline.is_empty() => {
                // The usual case: a single value, at the top level of the document.
                if local.parts().len() == 1
                    && let Some(value) = document.get(local.as_str())
                    && !matches!(value, Value::Array(_))
                    && join.for_each_equal(value, subfields, context, visit)?
                {
                    return Ok(());
                }
                match join.for_each_match(local_values(document, local), subfields, context, visit)? {
                    None => return Ok(()),
                    Some(values) => Some((join, values)),
                }
            }
            (Some((local, _)), Some(join)) => Some((join, local_values(document, local))),
            _ => None,
        };
        self.open_foreign(document, join, context)?.for_each(&mut |found| {
            visit(found)?;
            Ok(Flow::Continue(()))
        })
    }

    /// How the stage after this one unwinds the array that this one makes, if it does.
    fn unwound_by(&self, following: &[PlannedStage]) -> Option<UnwindOptions> {
        following.first().and_then(|next| next.stage.unwinds(&self.to))
    }
}

/// The values of `localField`: null if there is none.
fn local_values(document: Doc<'_>, local: &Path) -> JoinValues {
    let mut values = JoinValues::new();
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
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let doc = document(stage)?;
        let known = ["from", "as", "localField", "foreignField", "let", "pipeline"];
        known_fields_or(ErrorCode::FailedToParse, "$lookup", doc, &known)?;
        let to = required_string((ErrorCode::FailedToParse, ErrorCode::FailedToParse), "$lookup", doc, "as")?;
        check_path(to)?;
        let local = optional_string("$lookup", doc, "localField")?;
        let foreign = optional_string("$lookup", doc, "foreignField")?;
        let fields = match (local, foreign) {
            (Some(local), Some(foreign)) => {
                check_path(local)?;
                check_path(foreign)?;
                Some((Path::new(local), foreign.to_owned()))
            }
            (None, None) => None,
            _ => {
                return Err(failed("$lookup requires both or neither of 'localField' and 'foreignField'"));
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
            Some(_) => return Err(failed("$lookup: 'let' must be a document")),
        }
        let stages = doc.get("pipeline");
        if stages.is_none() && fields.is_none() {
            return Err(failed("$lookup needs 'localField' and 'foreignField', or a 'pipeline'"));
        }
        let stages = stages.unwrap_or(Value::Array(Doc::EMPTY));
        let pipeline = Pipeline::within(stages, &parser.nested(parser.names.renamed(names))?)?;
        // Without a collection the pipeline must begin with documents of its own.
        let from = match optional_string("$lookup", doc, "from")? {
            Some(from) => from.to_owned(),
            None if pipeline.has_source() => String::new(),
            None => return Err(failed("$lookup needs the field 'from'")),
        };
        let collation = parser.names.collation().clone();
        Ok(Lookup { from, to: Path::new(to), fields, variables, pipeline, collation })
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        following: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        let join = self
            .fields
            .as_ref()
            .map(|(_, foreign)| Join::new(context.namespace(&self.from), foreign, &self.collation));
        // If `$unwind` of the array follows, its documents are made at once, and only the fields that are needed.
        let unwind = self.unwound_by(following);
        let subfields = match unwind {
            Some(_) if self.pipeline.is_empty() && self.to.parts().len() == 1 => {
                subfields_needed(following.get(1..).unwrap_or_default(), self.to.first())
            }
            _ => None,
        };
        let subfields = subfields.map(|fields| Fields::new(fields.iter().map(|field| field.as_bytes())));
        Ok(Box::new(LookupStream::new(self, join, unwind, subfields, input, context)))
    }

    fn absorbs(&self, following: &[PlannedStage]) -> usize {
        usize::from(self.unwound_by(following).is_some())
    }

    fn is_partitionable(&self) -> bool {
        self.fields.is_some() && self.variables.is_empty() && self.pipeline.is_empty()
    }

    fn scores(&self) -> Scores {
        Scores::Kept
    }

    fn reads(&self, fields: &mut Vec<String>) -> Reads {
        for variable in &self.variables {
            let reads = variable.reads();
            if reads.whole {
                return Reads::Any;
            }
            fields.extend(reads.paths.iter().map(|path| path.first().to_owned()));
        }
        fields.extend(self.fields.iter().map(|(local, _)| local.first().to_owned()));
        // The result keeps the place of this field among the others.
        fields.push(self.to.first().to_owned());
        Reads::Named
    }

    fn preserves(&self, field: &str) -> bool {
        field != self.to.first()
    }
}
