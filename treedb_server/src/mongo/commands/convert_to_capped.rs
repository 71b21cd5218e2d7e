//! `convertToCapped`.

use super::Result;
use super::request::{Request, done};
use super::writes::{flush_catalog_change, write_concern};
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut size, mut max, mut durability) = (None, None, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "size" => size = Some(arg.count()?),
            "max" => max = Some(arg.count()?),
            "writeConcern" => durability = write_concern(arg.document()?)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let size = size.ok_or_else(|| CommandError::missing("convertToCapped.size"))?;
    let namespace = request.namespace()?;
    request.context.database.convert_to_capped(namespace.as_str(), size, max)?;
    flush_catalog_change(request, durability)?;
    tracing::info!(%namespace, "collection capped");
    done()
}
