//! `$skip`, `$limit`, `$sample`.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::access::Flow;
use crate::doc::Element;
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::random;

use super::pipeline::Stage;
use super::stream::{Docs, List, Stream, Visit};
use super::world::Context;

/// The number of `$skip` or `$limit`.
pub(super) fn amount(stage: &Element<'_>, code: ErrorCode) -> Result<u64> {
    stage.value().as_integer().and_then(|n| u64::try_from(n).ok()).ok_or_else(|| {
        QueryError::new(
            code,
            format!(
                "invalid argument to {} stage: expected a whole number that is not negative, found {}",
                stage.name_str(),
                crate::doc::shown(stage.value())
            ),
        )
    })
}

/// All but the first documents.
pub(super) struct Skip {
    input: Docs,
    left: u64,
}

impl Skip {
    pub(super) fn new(input: Docs, left: u64) -> Self {
        Skip { input, left }
    }
}

impl Stream for Skip {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while self.left > 0 {
            if self.input.next()?.is_none() {
                return Ok(None);
            }
            self.left -= 1;
        }
        self.input.next()
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let left = &mut self.left;
        self.input.each(&mut |document| {
            if *left > 0 {
                *left -= 1;
                return Ok(Flow::Continue(()));
            }
            visit(document)
        })
    }
}

/// The first documents.
pub(super) struct Limit {
    input: Docs,
    left: u64,
}

impl Limit {
    pub(super) fn new(input: Docs, left: u64) -> Self {
        Limit { input, left }
    }
}

impl Stream for Limit {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.input.next()
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        let left = &mut self.left;
        self.input.each(&mut |document| {
            *left -= 1;
            let flow = visit(document)?;
            Ok(if *left == 0 { Flow::Break(()) } else { flow })
        })
    }
}

/// `$sample`: some documents, each as likely as any other.
#[derive(Debug)]
pub(super) struct Sample {
    size: usize,
}

impl Sample {
    pub(super) fn parse(stage: &Element<'_>) -> Result<Sample> {
        let doc = super::document(stage)?;
        super::only("$sample", doc, &["size"])?;
        let size =
            doc.get("size").and_then(|size| size.as_integer()).and_then(|size| usize::try_from(size).ok());
        match size.filter(|size| *size > 0) {
            Some(size) => Ok(Sample { size }),
            None => Err(super::failed("$sample needs a 'size' that is a whole number greater than 0")),
        }
    }
}

/// Chosen when the first is asked for.
struct Sampling {
    size: usize,
    memory: usize,
    input: Option<Docs>,
    chosen: List,
}

impl Stage for Sample {
    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        let chosen = List::new(Vec::new());
        Ok(Box::new(Sampling { size: self.size, memory: context.memory, input: Some(input), chosen }))
    }
}

impl Stream for Sampling {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(mut input) = self.input.take() {
            let (mut chosen, mut seen, mut bytes) = (Vec::new(), 0_usize, 0);
            let (size, memory) = (self.size, self.memory);
            input.each(&mut |document| {
                seen += 1;
                // The newest takes the place of one of those kept as often as its share demands.
                let place = if chosen.len() < size { None } else { Some((random() * seen as f64) as usize) };
                match place {
                    None => {
                        bytes += document.as_bytes().len();
                        chosen.push(document.to_owned());
                        // The order is as random as the choice.
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
                if bytes > memory {
                    return Err(super::too_much_memory("$sample", memory));
                }
                Ok(Flow::Continue(()))
            })?;
            self.chosen = List::new(chosen);
        }
        self.chosen.next()
    }
}
