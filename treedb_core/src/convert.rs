//! What calls take as a document, an update or a pipeline: `doc!` and `rawdoc!`, owned and borrowed.

use bson::raw::RawDocumentBuf;
use bson::{Document, RawDocument};
use treedb_query::query::Changes;

use crate::error::Result;

/// A document that a call takes: a filter, an order, options.
pub trait IntoDocument {
    /// The document as bytes.
    ///
    /// # Errors
    /// [`Error::Bson`](crate::Error::Bson) for a field name with a NUL.
    fn into_document(self) -> Result<RawDocumentBuf>;
}

impl IntoDocument for RawDocumentBuf {
    fn into_document(self) -> Result<RawDocumentBuf> {
        Ok(self)
    }
}

impl IntoDocument for &RawDocument {
    fn into_document(self) -> Result<RawDocumentBuf> {
        Ok(self.to_owned())
    }
}

impl IntoDocument for Document {
    fn into_document(self) -> Result<RawDocumentBuf> {
        Ok(RawDocumentBuf::try_from(&self)?)
    }
}

impl IntoDocument for &Document {
    fn into_document(self) -> Result<RawDocumentBuf> {
        Ok(RawDocumentBuf::try_from(self)?)
    }
}

/// The stages of a pipeline: a `Vec`, an array or a slice of documents.
pub trait IntoPipeline {
    /// The stages as bytes.
    ///
    /// # Errors
    /// As [`IntoDocument::into_document`].
    fn into_pipeline(self) -> Result<Vec<RawDocumentBuf>>;
}

impl<D: IntoDocument> IntoPipeline for Vec<D> {
    fn into_pipeline(self) -> Result<Vec<RawDocumentBuf>> {
        self.into_iter().map(IntoDocument::into_document).collect()
    }
}

impl<D: IntoDocument, const N: usize> IntoPipeline for [D; N] {
    fn into_pipeline(self) -> Result<Vec<RawDocumentBuf>> {
        self.into_iter().map(IntoDocument::into_document).collect()
    }
}

impl<'d, D> IntoPipeline for &'d [D]
where
    &'d D: IntoDocument,
{
    fn into_pipeline(self) -> Result<Vec<RawDocumentBuf>> {
        self.iter().map(IntoDocument::into_document).collect()
    }
}

/// What an update does: a document of operators (`{ "$set": { .. } }`), or the stages of a pipeline.
pub struct UpdateModifications(pub(crate) Result<Changes>);

impl<D: IntoDocument> From<D> for UpdateModifications {
    fn from(operators: D) -> Self {
        UpdateModifications(operators.into_document().map(Changes::Document))
    }
}

impl<D: IntoDocument> From<Vec<D>> for UpdateModifications {
    fn from(stages: Vec<D>) -> Self {
        UpdateModifications(stages.into_pipeline().map(Changes::Pipeline))
    }
}

impl<D: IntoDocument, const N: usize> From<[D; N]> for UpdateModifications {
    fn from(stages: [D; N]) -> Self {
        UpdateModifications(stages.into_pipeline().map(Changes::Pipeline))
    }
}

/// The options of an action that are documents. A document that cannot be encoded is reported when the action is run.
#[derive(Debug, Default)]
pub(crate) struct Deferred(Option<crate::Error>);

impl Deferred {
    /// Takes a document, or remembers why it is none.
    pub(crate) fn take(&mut self, document: impl IntoDocument) -> Option<RawDocumentBuf> {
        match document.into_document() {
            Ok(document) => Some(document),
            Err(error) => {
                self.0.get_or_insert(error);
                None
            }
        }
    }

    /// The first error there was.
    pub(crate) fn check(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
