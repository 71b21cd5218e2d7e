//! `ping`.

use super::Result;
use super::request::{Request, done};

pub(super) fn run(_request: &Request<'_>) -> Result {
    done()
}
