//! Scores: the metadata `vectorSearchScore` of documents that a search has found, which expressions read as
//! `{ $meta: "vectorSearchScore" }`.
//!
//! A score is no field of its document. The search in front of a pipeline sets [`CurrentScore`] with each document that it
//! passes on, and a stage that makes its documents one by one evaluates its expressions before it takes the next one. A stage
//! that holds documents back and returns them unchanged gets them with their scores in a field ([`AttachedStream`]), which is
//! taken off again after it ([`DetachedStream`]). One that holds them back and changes them keeps their scores itself, in
//! [`Scored`]. After any other stage there are no scores, and `$meta` is refused by the parser.

use bson::RawDocumentBuf;

use crate::doc::write::Writer;
use crate::doc::{Doc, Value};
use crate::error::Result;
use crate::query::expr::CurrentScore;

use super::stream::{BoxedStream, DocumentStream};

/// The field that holds the score of a document within a stage. It is the first one, so that it is found before a stored
/// field of the same name.
pub(crate) const SCORE_FIELD: &str = "$vectorSearchScore";

/// What a stage does to the scores of its documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scores {
    /// It begins a pipeline and gives each document one.
    Given,
    /// It passes each document on before it takes the next one, or sets its score again when it passes it on.
    Kept,
    /// It holds documents back and passes them on unchanged.
    Held,
    /// It makes other documents, which have none.
    Lost,
}

impl Scores {
    /// Whether documents have scores after the stage, if they have (`before`) when they come to it.
    pub(crate) fn after(self, before: bool) -> bool {
        match self {
            Scores::Given => true,
            Scores::Kept | Scores::Held => before,
            Scores::Lost => false,
        }
    }
}

/// A document and its score.
pub(crate) struct Scored {
    pub(crate) document: RawDocumentBuf,
    pub(crate) score: Option<f64>,
}

/// Passes on the next of the documents that a stage has held back.
pub(crate) fn pass_on(
    held: &mut std::vec::IntoIter<Scored>,
    current: &CurrentScore,
) -> Option<RawDocumentBuf> {
    let Scored { document, score } = held.next()?;
    current.set(score);
    Some(document)
}

/// Documents with their scores in a field.
pub(crate) struct AttachedStream {
    pub(crate) input: BoxedStream,
    pub(crate) score: CurrentScore,
}

impl DocumentStream for AttachedStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(document) = self.input.next()? else { return Ok(None) };
        let mut out = Writer::new(document.as_bytes().len() + SCORE_FIELD.len() + 16);
        out.value(SCORE_FIELD.as_bytes(), self.score.get().map_or(Value::Null, Value::Double));
        Doc::from(&document).elements().for_each(|element| out.copy(&element));
        Ok(Some(out.finish()))
    }
}

/// The documents of a stage over an [`AttachedStream`], as they were before it.
pub(crate) struct DetachedStream {
    pub(crate) input: BoxedStream,
    pub(crate) score: CurrentScore,
}

impl DocumentStream for DetachedStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(document) = self.input.next()? else { return Ok(None) };
        let mut elements = Doc::from(&document).elements();
        self.score.set(match elements.next().map(|first| first.value()) {
            Some(Value::Double(score)) => Some(score),
            _ => None,
        });
        let mut out = Writer::new(document.as_bytes().len());
        elements.for_each(|element| out.copy(&element));
        Ok(Some(out.finish()))
    }
}
