//! TreeDB behind the MongoDB wire protocol and the native protocol.
//!
//! | module | what it is |
//! |---|---|
//! | [`cli`] | the `treedb` command: flags, `serve`, `import`, `export`, `find` |
//! | [`server`] | listeners, from bind to shutdown |
//! | [`config`] | addresses and limits |
//! | `settings` | where they come from: file, environment, flags |
//! | `mongo` | MongoDB's wire protocol: messages, commands, cursors |
//! | [`native`] | the native protocol (docs/native-protocol.md) |
//! | [`client`] | a client of the native protocol |
//! | `access` | users, roles, authentication |
//! | `admin` | HTTP: `/livez`, `/readyz`, `/metrics`, and the web page |
//! | `web` | the page: who may see it, its files, what it asks |
//! | `statements` | what shells understand: of `treedb shell` and the page's query box |
//! | `backups` | copies of the database while it is served |
//! | `context` | what connections share: database, cursors, budget, metrics |
//! | `metrics`, `scrape` | what `/metrics` tells: counters of our own, and what others count |
//! | [`tls`] | the server's certificate |
//! | `notify` | telling the service manager how far the server is |
//! | `parameters` | limits that can be changed while it runs |
//! | `stream` | plain connections, and those through TLS |
//! | `stall` | how long a peer may take to send or to read |
//! | `shutdown` | the shutdown signal |
//! | `write_lock` | the lock of `fsync`, which writes wait for |
//! | `importers` | key/value databases of other programs, read (feature `importers`) |
//! | `logs` | where log lines go |

pub mod cli;
pub mod client;
pub mod config;
pub mod native;
pub mod server;

mod access;
mod admin;
mod backups;
mod context;
#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(feature = "importers")]
mod importers;
mod listener;
mod logs;
mod metrics;
mod mongo;
mod notify;
mod operations;
mod parameters;
mod received;
mod scrape;
mod settings;
mod shutdown;
mod stall;
mod statements;
mod stream;
mod threads;
pub mod tls;
mod web;
mod write_lock;
