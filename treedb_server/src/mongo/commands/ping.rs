//! `ping`.

use super::Result;
use super::request::{Request, done};

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    done()
}
