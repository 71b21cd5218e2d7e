//! `$sample`: documents chosen at random, each as likely as any other.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::access::Flow;
use crate::doc::Element;
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::random;

use crate::aggregate::context::Context;
use crate::aggregate::operand::{document_or, known_fields_or, memory_exceeded};
use crate::aggregate::score::Scores;
use crate::aggregate::stage::{PlannedStage, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream, VecStream};

/// `$sample`.
#[derive(Debug)]
pub(crate) struct Sample {
    size: usize,
}

/// Reads the input when the first document is asked for.
struct SampleStream {
    size: usize,
    memory_limit: usize,
    input: Option<BoxedStream>,
    chosen: VecStream,
}

impl Stage for Sample {
    fn parse(stage: &Element<'_>, _: &StageParser) -> Result<Self> {
        let doc = document_or(ErrorCode::Location28745, stage)?;
        known_fields_or(ErrorCode::Location28748, "$sample", doc, &["size"])?;
        let given = doc.get("size");
        let size = given.and_then(|size| size.as_integer()).and_then(|size| usize::try_from(size).ok());
        let code = match given {
            None => ErrorCode::Location28749,
            Some(size) if !size.is_number() => ErrorCode::Location28746,
            Some(_) => ErrorCode::Location28747,
        };
        match size.filter(|size| *size > 0) {
            Some(size) => Ok(Sample { size }),
            None => {
                Err(QueryError::new(code, "$sample needs a 'size' that is a whole number greater than 0"))
            }
        }
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        let chosen = VecStream::new(Vec::new());
        Ok(Box::new(SampleStream {
            size: self.size,
            memory_limit: context.memory_limit,
            input: Some(input),
            chosen,
        }))
    }

    fn scores(&self) -> Scores {
        Scores::Held
    }
}

impl DocumentStream for SampleStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(mut input) = self.input.take() {
            let (mut chosen, mut seen, mut bytes) = (Vec::new(), 0_usize, 0);
            let (size, limit) = (self.size, self.memory_limit);
            input.for_each(&mut |document| {
                seen += 1;
                // Reservoir sampling: the nth document replaces one of those kept with a probability of size / n.
                let place = if chosen.len() < size { None } else { Some((random() * seen as f64) as usize) };
                match place {
                    None => {
                        bytes += document.as_bytes().len();
                        chosen.push(document.to_owned());
                        // The order is random as well.
                        let other = (random() * chosen.len() as f64) as usize;
                        let last = chosen.len() - 1;
                        chosen.swap(other.min(last), last);
                    }
                    Some(place) => {
                        if let Some(old) = chosen.get_mut(place) {
                            bytes = bytes + document.as_bytes().len() - old.as_bytes().len();
                            *old = document.to_owned();
                        }
                    }
                }
                if bytes > limit {
                    return Err(memory_exceeded("$sample", limit));
                }
                Ok(Flow::Continue(()))
            })?;
            self.chosen = VecStream::new(chosen);
        }
        self.chosen.next()
    }
}
