//! The documents of a find or a pipeline.

use std::marker::PhantomData;

use bson::{RawDocument, RawDocumentBuf};
use serde::de::{Deserialize, DeserializeOwned};

use crate::error::{Error, ErrorCode, Result};
use crate::target::Documents;

/// The documents of an answer, from one snapshot: an iterator of `Result<T>`.
///
/// [`advance`](Self::advance) and [`current`](Self::current) read documents without making a `T` of each. A cursor owns
/// what it needs: it can be kept and sent to another thread. While it lives, the pages of its snapshot are not reused.
pub struct Cursor<T> {
    documents: Documents,
    current: Option<RawDocumentBuf>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Cursor<T> {
    pub(crate) fn new(documents: Documents) -> Self {
        Cursor { documents, current: None, kind: PhantomData }
    }

    /// Goes to the next document. False after the last.
    ///
    /// # Errors
    /// Those of filters and expressions that fail for a document, and of the storage engine.
    pub fn advance(&mut self) -> Result<bool> {
        self.current = self.documents.next()?;
        Ok(self.current.is_some())
    }

    /// The document that [`Self::advance`] went to.
    pub fn current(&self) -> Option<&RawDocument> {
        self.current.as_deref()
    }

    /// The document that [`Self::advance`] went to, as a value that may borrow from it.
    ///
    /// # Errors
    /// [`Error::Bson`] if it is no `T`; `CursorNotFound` if there is none.
    pub fn deserialize_current<'a>(&'a self) -> Result<T>
    where
        T: Deserialize<'a>,
    {
        match &self.current {
            Some(document) => Ok(bson::deserialize_from_slice(document.as_bytes())?),
            None => Err(Error::command(
                ErrorCode::CursorNotFound,
                "the cursor is at no document: call advance first",
            )),
        }
    }

    /// The same cursor, with documents of another type.
    pub fn with_type<U>(self) -> Cursor<U> {
        Cursor { documents: self.documents, current: self.current, kind: PhantomData }
    }
}

impl<T: DeserializeOwned> Iterator for Cursor<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        self.documents.next().transpose().map(|document| decode(&document?))
    }
}

/// A document as a value.
pub(crate) fn decode<T: DeserializeOwned>(document: &RawDocument) -> Result<T> {
    Ok(bson::deserialize_from_slice(document.as_bytes())?)
}
