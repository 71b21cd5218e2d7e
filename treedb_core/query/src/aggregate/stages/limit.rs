//! `$skip` and `$limit`.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::doc::Element;
use crate::error::{ErrorCode, QueryError, Result};

use crate::aggregate::context::Context;
use crate::aggregate::score::Scores;
use crate::aggregate::stage::{PlannedStage, Reads, Role, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream, Visitor};

/// The number of `$skip` or `$limit`.
fn number(stage: &Element<'_>, code: ErrorCode) -> Result<u64> {
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

fn as_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// `$skip`: all but the first documents.
#[derive(Debug)]
pub(crate) struct Skip(u64);

impl Stage for Skip {
    fn parse(stage: &Element<'_>, _: &StageParser) -> Result<Self> {
        number(stage, ErrorCode::Location5107200).map(Skip)
    }

    fn open(self: Arc<Self>, input: BoxedStream, _: &[PlannedStage], _: &Context) -> Result<BoxedStream> {
        Ok(Box::new(SkipStream { input, remaining: self.0 }))
    }

    fn explain(&self, _: &RawDocument) -> RawDocumentBuf {
        rawdoc! { "$skip": as_integer(self.0) }
    }

    fn role(&self) -> Role<'_> {
        Role::Skip(self.0)
    }

    fn merged_with(&self, next: &Role<'_>) -> Option<Arc<dyn Stage>> {
        match next {
            Role::Skip(next) => Some(Arc::new(Skip(self.0.saturating_add(*next)))),
            _ => None,
        }
    }

    fn reads(&self, _: &mut Vec<String>) -> Reads {
        Reads::Named
    }

    fn scores(&self) -> Scores {
        Scores::Kept
    }
}

/// `$limit`: the first documents.
#[derive(Debug)]
pub(crate) struct Limit(u64);

impl Stage for Limit {
    fn parse(stage: &Element<'_>, _: &StageParser) -> Result<Self> {
        match number(stage, ErrorCode::Location5107201)? {
            0 => Err(QueryError::new(ErrorCode::Location15958, "the limit must be positive")),
            limit => Ok(Limit(limit)),
        }
    }

    fn open(self: Arc<Self>, input: BoxedStream, _: &[PlannedStage], _: &Context) -> Result<BoxedStream> {
        Ok(Box::new(LimitStream { input, remaining: self.0 }))
    }

    fn explain(&self, _: &RawDocument) -> RawDocumentBuf {
        rawdoc! { "$limit": as_integer(self.0) }
    }

    fn role(&self) -> Role<'_> {
        Role::Limit(self.0)
    }

    fn merged_with(&self, next: &Role<'_>) -> Option<Arc<dyn Stage>> {
        match next {
            Role::Limit(next) => Some(Arc::new(Limit(self.0.min(*next)))),
            _ => None,
        }
    }

    fn reads(&self, _: &mut Vec<String>) -> Reads {
        Reads::Named
    }

    fn scores(&self) -> Scores {
        Scores::Kept
    }
}

struct SkipStream {
    input: BoxedStream,
    remaining: u64,
}

impl DocumentStream for SkipStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while self.remaining > 0 {
            if self.input.next()?.is_none() {
                return Ok(None);
            }
            self.remaining -= 1;
        }
        self.input.next()
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        let remaining = &mut self.remaining;
        self.input.for_each(&mut |document| {
            if *remaining > 0 {
                *remaining -= 1;
                return Ok(Flow::Continue(()));
            }
            visit(document)
        })
    }
}

struct LimitStream {
    input: BoxedStream,
    remaining: u64,
}

impl DocumentStream for LimitStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if self.remaining == 0 {
            return Ok(None);
        }
        self.remaining -= 1;
        self.input.next()
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        if self.remaining == 0 {
            return Ok(());
        }
        let remaining = &mut self.remaining;
        self.input.for_each(&mut |document| {
            *remaining -= 1;
            let flow = visit(document)?;
            Ok(if *remaining == 0 { Flow::Break(()) } else { flow })
        })
    }
}
