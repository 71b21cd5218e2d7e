//! How the documents of a collection are stored as rows.

use std::borrow::Cow;

use bson::RawDocument;

use crate::code::Result;

use super::meta::Meta;

impl Meta {
    /// The document that a row's bytes are: borrowed where it is stored as it is.
    pub(crate) fn stored<'r>(&self, row: &'r [u8]) -> Result<Cow<'r, RawDocument>> {
        Ok(Cow::Borrowed(RawDocument::from_bytes(row)?))
    }
}
