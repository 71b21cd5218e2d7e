//! `insert`. The documents of one command are one transaction: one log write, one wait for the disk.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf};

use super::Result;
use super::request::Request;
use super::writes::{Options, WriteErrors, append_count, each_statement, origin, statements};
use crate::mongo::sessions::CommandScope;
use crate::mongo::write_target::WriteTarget;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut reply = RawDocumentBuf::new();
    if !matches!(request.scope, CommandScope::Standalone) {
        let origin = origin(request)?;
        let mut insert =
            |_: usize, document: &RawDocument, target: &mut WriteTarget<'_>| target.insert(document, origin);
        let tally = each_statement(request, "documents", &mut insert)?;
        append_count(&mut reply, cstr!("n"), tally.found);
        tally.errors.append_to(&mut reply);
        return Ok(reply);
    }
    let mut options = Options::new();
    for arg in request.args() {
        let arg = arg?;
        if !options.read(&arg)? && arg.name != "documents" {
            arg.ignored_or_unknown()?;
        }
    }
    let documents = statements(request, "documents")?;
    options.check_numbers(documents.len())?;
    let collection = options.acknowledge(request.collection()?);
    let outcome = collection.insert_many_of(&documents, options.ordered, options.origin())?;
    append_count(&mut reply, cstr!("n"), outcome.inserted);
    let mut errors = WriteErrors::default();
    for (index, error) in outcome.errors {
        errors.push(index, error.into());
    }
    errors.append_to(&mut reply);
    Ok(reply)
}
