//! What shells understand: the statements of mongosh, without JavaScript.
//!
//! | module | what it is |
//! |---|---|
//! | [`statement`] | what can be entered: `show dbs`, `db.films.find({..}).limit(5)` |
//! | [`literal`] | values as shells write them |
//! | [`methods`] | methods as the commands that they stand for |

pub(crate) mod literal;
pub(crate) mod methods;
pub(crate) mod statement;
