//! `collMod`: changes what a collection's documents must match.

use bson::{Bson, Document};

use super::Result;
use super::create::{VALIDATION, images};
use super::request::{Request, done};
use super::writes::write_concern;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut options = Document::new();
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            name if VALIDATION.contains(&name) => {
                options.insert(name, Bson::try_from(arg.value())?);
            }
            "changeStreamPreAndPostImages" => {
                images(&arg)?;
                options.insert(arg.name, Bson::try_from(arg.value())?);
            }
            "expireAfterSeconds" | "index" | "pipeline" | "viewOn" => {
                arg.unsupported()?;
            }
            "writeConcern" => {
                write_concern(arg.document()?)?;
            }
            _ => arg.generic()?,
        }
    }
    let namespace = request.namespace()?;
    request.context.database.modify_collection(namespace.as_str(), options)?;
    tracing::info!(%namespace, "collection changed");
    done()
}
