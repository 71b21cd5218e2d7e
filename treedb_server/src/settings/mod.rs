//! The settings of `treedb serve`: one table from which flags, environment, configuration file, help and sample are made.
//!
//! | module | what it is |
//! |---|---|
//! | `table` | each setting: name, kind, default, meaning |
//! | `kind` | what values there are, how they are written and read |
//! | `file` | a configuration file (TOML), with the line of each value |
//! | `sources` | defaults < file < environment < flags, and where each value came from |
//! | `show` | `--print-config` and `--sample-config` |
//!
//! A setting is `max_connections` in the file, `TREEDB_MAX_CONNECTIONS` in the environment and `--max-connections` as a flag. No
//! setting is a secret itself: keys and passwords are in files that a setting names, so everything may be printed.

mod file;
pub(crate) mod kind;
pub(crate) mod show;
pub(crate) mod sources;
pub(crate) mod table;

pub(crate) use sources::Layers;
pub(crate) use table::{Settings, TABLE};
