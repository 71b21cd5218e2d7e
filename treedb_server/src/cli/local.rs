//! Commands on a directory, without a server: of `treedb shell`, and of `treedb restore`, which replays an oplog by them.

use std::path::Path;
use std::sync::Arc;

use bson::RawDocumentBuf;
use tokio::runtime::Runtime;
use treedb_collections::Database;
use treedb_storage::Durability;

use super::Failure;
use crate::access::Access;
use crate::config::Limits;
use crate::context::Context;
use crate::mongo::connection::Session;
use crate::mongo::in_process;
use crate::mongo::sessions::Which;
use crate::mongo::topology::Topology;

/// A database with an engine of its own.
pub(super) struct Local {
    runtime: Runtime,
    context: Arc<Context>,
    session: Arc<Session>,
}

impl Local {
    /// `durability` is that of writes which ask for none.
    pub(super) fn new(database: Database, dir: &Path, durability: Durability) -> Result<Local, Failure> {
        let access = Access::new(database.clone(), false)?;
        let limits = Limits { blocking_threads: 8, ..Limits::default() };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(limits.threads())
            .enable_all()
            .build()?;
        let context =
            Context::new(database, dir.to_owned(), durability, limits, Topology::Standalone, access);
        let context = Arc::new(context);
        let session = Arc::new(Session::new(context.next_connection(), ([127, 0, 0, 1], 0).into(), None));
        Ok(Local { runtime, context, session })
    }

    /// The session of all its commands.
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Runs a command, which names its database (`$db`), and returns its reply, error or not.
    pub(super) fn ask(&self, command: &RawDocumentBuf) -> RawDocumentBuf {
        self.runtime.block_on(in_process::run(command, &self.context, &self.session, None))
    }

    /// Ends the engine. Everything written is on disk.
    pub(super) fn close(self) -> Result<(), Failure> {
        let Local { runtime, context, session } = self;
        drop((runtime, session));
        // Cursors hold snapshots of the database that is about to be closed.
        context.cursors.clear();
        context.sessions.end(&Which::all(), &context.cursors);
        match Arc::try_unwrap(context) {
            Ok(Context { database, access, .. }) => {
                drop(access);
                Ok(database.close()?)
            }
            Err(context) => Ok(context.database.checkpoint()?),
        }
    }
}
