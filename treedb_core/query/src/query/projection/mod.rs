//! Which fields a query returns, and which it reads.
//!
//! | file | what it holds |
//! |---|---|
//! | `find` | [`Projection`]: the projection of a `find` |
//! | `reshape` | [`Reshape`]: `$project`, `$addFields`, `$unset`, `$replaceRoot` |
//! | `used_fields` | [`UsedFields`]: the fields that have to be decoded |

mod find;
mod reshape;
mod used_fields;

pub use find::Projection;
pub use reshape::Reshape;
pub(crate) use reshape::{borrow_document, finish_document};
pub use used_fields::{MatchRate, UsedFields};
