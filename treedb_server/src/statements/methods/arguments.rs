//! The arguments of a method, taken one after the other.

use bson::{Bson, Document};

use super::super::statement::Call;
use super::names::form;

/// The arguments of a method, taken one after the other.
pub(super) struct Arguments<'c> {
    pub(super) left: std::slice::Iter<'c, Bson>,
    form: String,
}

impl<'c> Arguments<'c> {
    pub(super) fn of(call: &'c Call, table: &[(&str, &'static str)]) -> Self {
        Arguments { left: call.arguments.iter(), form: form(table, &call.name) }
    }

    pub(super) fn wrong<T>(&self) -> Result<T, String> {
        Err(format!("the form is {}", self.form))
    }

    pub(super) fn value(&mut self) -> Result<Bson, String> {
        self.left.next().map_or_else(|| self.wrong(), |value| Ok(value.clone()))
    }

    /// A document that may be missing.
    pub(super) fn optional(&mut self) -> Result<Document, String> {
        match self.left.next() {
            Some(Bson::Document(document)) => Ok(document.clone()),
            None | Some(Bson::Null) => Ok(Document::new()),
            Some(_) => self.wrong(),
        }
    }

    pub(super) fn document(&mut self) -> Result<Document, String> {
        match self.left.next() {
            Some(Bson::Document(document)) => Ok(document.clone()),
            _ => self.wrong(),
        }
    }

    pub(super) fn array(&mut self) -> Result<Vec<Bson>, String> {
        match self.left.next() {
            Some(Bson::Array(array)) => Ok(array.clone()),
            _ => self.wrong(),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, String> {
        match self.left.next() {
            Some(Bson::String(text)) => Ok(text.clone()),
            _ => self.wrong(),
        }
    }

    pub(super) fn end(mut self) -> Result<(), String> {
        if self.left.next().is_some() { self.wrong() } else { Ok(()) }
    }
}
