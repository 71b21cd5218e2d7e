//! The catalog: which collections and indexes exist, and their options.
//!
//! | file | what it holds |
//! |---|---|
//! | `table` | [`Catalog`]: the table `catalog`, from namespaces to entries |
//! | `meta` | [`meta::Meta`]: a collection's entry and its bytes |
//! | `cache` | the entries that a thread used last |
//! | `namespace` | [`namespace::Namespace`]: `database.collection` |
//! | `index_spec` | [`index_spec::IndexSpec`]: an index to create |
//! | `index_change` | the options of an index that `collMod` changes |
//! | `options` | the options of `create`: completing and comparing them |
//! | `rename` | giving a collection another name |
//! | `search_index` | [`search_index::SearchIndex`]: a search index as it is listed |
//! | `view_def`, `views` | views: their entries, and creating and reading them |
//! | `series_change` | when documents expire, and the buckets of time series, as `collMod` changes them |
//! | `special` | capped, clustered and time series collections |
//! | `validator` | validation of documents |

pub(crate) mod cache;
pub(crate) mod index_change;
pub(crate) mod index_spec;
pub(crate) mod meta;
pub(crate) mod modification;
pub(crate) mod namespace;
mod options;
mod rename;
pub(crate) mod search_index;
mod series_change;
pub(crate) mod special;
mod table;
pub(crate) mod validator;
pub(crate) mod view_def;
pub(crate) mod views;

pub(crate) use table::Catalog;
