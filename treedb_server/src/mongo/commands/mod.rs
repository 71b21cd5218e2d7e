//! The commands: one file each, one row each in [`COMMANDS`].

mod aggregate;
mod apply_ops;
mod backup_to;
mod build_info;
mod bulk_write;
mod coll_mod;
mod coll_stats;
mod compact;
mod configure_fail_point;
mod conn_pool_stats;
mod connection_status;
mod convert_to_capped;
mod count;
mod create;
mod create_indexes;
mod current_op;
mod data_size;
mod db_hash;
mod db_stats;
mod default_concern;
mod delete;
mod distinct;
mod drop;
mod drop_database;
mod drop_indexes;
mod explain;
mod feature_version;
mod find;
mod find_and_modify;
mod fsync;
mod get_cmd_line_opts;
mod get_log;
mod get_more;
mod get_parameter;
mod hello;
mod host_info;
mod insert;
mod kill_cursors;
mod kill_op;
mod list_collections;
mod list_commands;
mod list_databases;
mod list_indexes;
mod log_rotate;
mod needs;
mod own_sources;
mod ping;
mod plan_cache;
mod profile;
mod re_index;
mod rename_collection;
mod replica_set;
mod request;
mod roles;
mod sasl;
mod search_indexes;
mod server_status;
mod sessions;
mod set_parameter;
mod shutdown;
mod stable_api;
mod top;
mod transactions;
mod update;
mod users;
mod validate;
mod whatsmyuri;
mod writes;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bson::{RawDocument, RawDocumentBuf};
use treedb_collections::Namespace;
use treedb_query::query::ErrorCode;

pub(crate) use self::host_info::hostname;
use self::needs::Needs;
pub(crate) use self::request::Request;
pub(crate) use self::writes::write_concern;
use super::common_fields::{CommonFields, Field};
use super::connection::Session;
use super::error::CommandError;
use super::op_msg::OpMsg;
use super::op_query;
use super::protocol_code::ProtocolCode;
use super::running;
use super::sessions::CommandScope;
use crate::access::EXTERNAL;
use crate::access::action::Action;
use crate::context::{Context, Reserved};
use crate::threads;
use crate::write_lock::Writing;

type Result<T = RawDocumentBuf> = std::result::Result<T, CommandError>;

/// A command.
pub(crate) struct Command {
    /// Its name.
    pub(crate) name: &'static str,
    /// Other spellings that old clients use.
    aliases: &'static [&'static str],
    /// Its description in `listCommands`.
    help: &'static str,
    /// Who may run it.
    needs: Needs,
    /// Only in the database `admin`.
    admin: bool,
    /// Never blocks: it runs where its message was read.
    quick: bool,
    /// Waits while writes are locked out. An `aggregate` does so if it ends in a stage that writes.
    writes: bool,
    /// How it takes part in transactions.
    transactions: TransactionSupport,
    run: fn(&Request<'_>) -> Result,
}

/// How a command takes part in transactions, and which transaction numbers it accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionSupport {
    /// Not at all.
    Never,
    /// It may be part of a transaction.
    Inside,
    /// It may be part of a transaction, or a retryable write of its own.
    Write,
    /// It commits a transaction.
    Commit,
    /// It aborts a transaction.
    Abort,
}

impl Command {
    /// A command that may block: it runs on a thread for blocking work.
    const fn new(
        name: &'static str,
        help: &'static str,
        needs: Needs,
        run: fn(&Request<'_>) -> Result,
    ) -> Self {
        Command {
            name,
            aliases: &[],
            help,
            needs,
            admin: false,
            quick: false,
            writes: false,
            transactions: TransactionSupport::Never,
            run,
        }
    }

    /// A command that only reads memory.
    const fn quick(
        name: &'static str,
        help: &'static str,
        needs: Needs,
        run: fn(&Request<'_>) -> Result,
    ) -> Self {
        Command { quick: true, ..Self::new(name, help, needs, run) }
    }

    const fn admin(self) -> Self {
        Command { admin: true, ..self }
    }

    const fn writes(self) -> Self {
        Command { writes: true, ..self }
    }

    /// Whether it waits while writes are locked out.
    fn is_write(&self, body: &RawDocument) -> bool {
        self.writes || self.name == "aggregate" && running::writes_its_result(body)
    }

    const fn transactions(self, transactions: TransactionSupport) -> Self {
        Command { transactions, ..self }
    }

    const fn also(self, aliases: &'static [&'static str]) -> Self {
        Command { aliases, ..self }
    }
}

/// Every command, by name.
pub(crate) static COMMANDS: &[Command] = &[
    Command::new("abortTransaction", "Abort a transaction", Needs::Login, transactions::run)
        .admin()
        .transactions(TransactionSupport::Abort),
    Command::new(
        "aggregate",
        "Run a pipeline of the supported stages",
        Needs::Arguments(needs::aggregate),
        aggregate::run,
    )
    .transactions(TransactionSupport::Inside),
    Command::new("applyOps", "Apply entries of an oplog", Needs::Login, apply_ops::run).writes(),
    Command::new(
        "authenticate",
        "Authenticate by the certificate of the connection",
        Needs::Nothing,
        sasl::authenticate,
    ),
    Command::quick("backupStatus", "The running backups", Needs::Cluster(Action::Backup), backup_to::status)
        .admin(),
    Command::new(
        "backupTo",
        "Copy the database into a new directory",
        Needs::Cluster(Action::Backup),
        backup_to::run,
    )
    .admin(),
    Command::quick("buildInfo", "Versions and limits", Needs::Nothing, build_info::run).also(&["buildinfo"]),
    Command::new(
        "bulkWrite",
        "Insert, update and delete documents of several collections",
        Needs::Arguments(needs::bulk_write),
        bulk_write::run,
    )
    .admin()
    .transactions(TransactionSupport::Write)
    .writes(),
    Command::new(
        "collMod",
        "Change a validator or an index",
        Needs::Arguments(needs::coll_mod),
        coll_mod::run,
    )
    .writes(),
    Command::new("collStats", "Sizes of a collection", Needs::Collection(Action::CollStats), coll_stats::run)
        .also(&["collstats"]),
    Command::new("commitTransaction", "Commit a transaction", Needs::Login, transactions::run)
        .admin()
        .transactions(TransactionSupport::Commit)
        .writes(),
    Command::new("compact", "Make the files smaller", Needs::Collection(Action::Compact), compact::run)
        .writes(),
    Command::quick(
        "configureFailPoint",
        "Make commands fail, for tests",
        Needs::Login,
        configure_fail_point::run,
    )
    .admin(),
    Command::quick(
        "connPoolStats",
        "Connections to other servers",
        Needs::Cluster(Action::ConnPoolStats),
        conn_pool_stats::run,
    ),
    Command::quick("connectionStatus", "The authenticated user", Needs::Nothing, connection_status::run),
    Command::new(
        "convertToCapped",
        "Make a collection capped",
        Needs::Collection(Action::ConvertToCapped),
        convert_to_capped::run,
    )
    .writes(),
    Command::new("count", "Count documents", Needs::Collection(Action::Find), count::run),
    Command::new("create", "Create a collection or view", Needs::Arguments(needs::create), create::run)
        .transactions(TransactionSupport::Inside)
        .writes(),
    Command::new(
        "createIndexes",
        "Create indexes and wait for them",
        Needs::Collection(Action::CreateIndex),
        create_indexes::run,
    )
    .transactions(TransactionSupport::Inside)
    .writes(),
    Command::new("createRole", "Create a role", Needs::Login, roles::create).writes(),
    Command::new(
        "createSearchIndexes",
        "Create indexes of vectors and wait for them",
        Needs::Collection(Action::CreateSearchIndexes),
        search_indexes::create,
    )
    .writes(),
    Command::new("createUser", "Create a user", Needs::Nothing, users::create).writes(),
    Command::new("currentOp", "What is running", Needs::Arguments(needs::current_op), current_op::run)
        .admin(),
    Command::new(
        "dataSize",
        "Bytes of the documents of a collection",
        Needs::Arguments(data_size::needs),
        data_size::run,
    )
    .also(&["datasize"]),
    Command::new("dbHash", "Sums of the documents", Needs::Database(Action::DbHash), db_hash::run)
        .also(&["dbhash"]),
    Command::new("dbStats", "Sizes of a database", Needs::Database(Action::DbStats), db_stats::run)
        .also(&["dbstats"]),
    Command::new("delete", "Delete documents", Needs::Collection(Action::Remove), delete::run)
        .transactions(TransactionSupport::Write)
        .writes(),
    Command::new(
        "distinct",
        "The distinct values of a field",
        Needs::Collection(Action::Find),
        distinct::run,
    )
    .transactions(TransactionSupport::Inside),
    Command::new("drop", "Drop a collection", Needs::Collection(Action::DropCollection), drop::run).writes(),
    Command::new(
        "dropAllRolesFromDatabase",
        "Drop every role of a database",
        Needs::Database(Action::DropRole),
        roles::drop_all,
    )
    .writes(),
    Command::new(
        "dropAllUsersFromDatabase",
        "Drop every user of a database",
        Needs::Database(Action::DropUser),
        users::drop_all,
    )
    .writes(),
    Command::new(
        "dropDatabase",
        "Drop every collection of a database",
        Needs::Database(Action::DropDatabase),
        drop_database::run,
    )
    .writes(),
    Command::new("dropIndexes", "Drop indexes", Needs::Collection(Action::DropIndex), drop_indexes::run)
        .also(&["deleteIndexes"])
        .writes(),
    Command::new("dropRole", "Drop a role", Needs::Database(Action::DropRole), roles::drop).writes(),
    Command::new(
        "dropSearchIndex",
        "Drop an index of vectors",
        Needs::Collection(Action::DropSearchIndex),
        search_indexes::drop,
    )
    .writes(),
    Command::new("dropUser", "Drop a user", Needs::Database(Action::DropUser), users::drop).writes(),
    Command::new("endSessions", "End sessions", Needs::Nothing, sessions::end),
    Command::new("explain", "The plan of a command", Needs::Arguments(needs::explain), explain::run),
    Command::new("find", "Find documents", Needs::Collection(Action::Find), find::run)
        .transactions(TransactionSupport::Inside),
    Command::new(
        "findAndModify",
        "Update or delete one document and return it",
        Needs::Arguments(needs::find_and_modify),
        find_and_modify::run,
    )
    .also(&["findandmodify"])
    .transactions(TransactionSupport::Write)
    .writes(),
    Command::new(
        "fsync",
        "Write a checkpoint, and lock writes out",
        Needs::Cluster(Action::Fsync),
        fsync::run,
    )
    .admin(),
    Command::quick("fsyncUnlock", "Let writes go on", Needs::Cluster(Action::Unlock), fsync::unlock).admin(),
    Command::quick(
        "getCmdLineOpts",
        "How the server was started",
        Needs::Cluster(Action::GetCmdLineOpts),
        get_cmd_line_opts::run,
    )
    .admin(),
    Command::quick(
        "getDefaultRWConcern",
        "The concerns of commands that name none",
        Needs::Cluster(Action::GetDefaultRwConcern),
        default_concern::run,
    )
    .admin(),
    Command::quick("getLog", "Recent log lines", Needs::Cluster(Action::GetLog), get_log::run).admin(),
    Command::new("getMore", "The next batch of a cursor", Needs::Arguments(needs::get_more), get_more::run)
        .transactions(TransactionSupport::Inside),
    Command::quick(
        "getParameter",
        "Parameters of the server",
        Needs::Cluster(Action::GetParameter),
        get_parameter::run,
    )
    .admin(),
    Command::new("grantPrivilegesToRole", "Add privileges to a role", Needs::Login, roles::grant_privileges)
        .writes(),
    Command::new("grantRolesToRole", "Let a role inherit others", Needs::Login, roles::grant_roles).writes(),
    Command::new("grantRolesToUser", "Give a user roles", Needs::Login, users::grant).writes(),
    Command::quick("hello", "Handshake", Needs::Nothing, hello::run),
    Command::new("hostInfo", "The machine", Needs::Cluster(Action::HostInfo), host_info::run),
    Command::new("insert", "Insert documents", Needs::Arguments(needs::insert), insert::run)
        .transactions(TransactionSupport::Write)
        .writes(),
    Command::quick("isMaster", "Handshake of old clients", Needs::Nothing, hello::run_legacy)
        .also(&["ismaster"]),
    Command::new(
        "killAllSessions",
        "End every session, or those of some users",
        Needs::Cluster(Action::KillAnySession),
        sessions::kill_all,
    ),
    Command::new(
        "killAllSessionsByPattern",
        "End the sessions that match",
        Needs::Cluster(Action::KillAnySession),
        sessions::kill_by_pattern,
    ),
    Command::new("killCursors", "Close cursors", Needs::Login, kill_cursors::run)
        .transactions(TransactionSupport::Inside),
    Command::quick("killOp", "Stop an operation", Needs::Login, kill_op::run).admin(),
    Command::new("killSessions", "End sessions", Needs::Login, sessions::kill_own),
    Command::new(
        "listCollections",
        "The collections of a database",
        Needs::Arguments(needs::list_collections),
        list_collections::run,
    ),
    Command::quick("listCommands", "The commands", Needs::Nothing, list_commands::run),
    Command::new("listDatabases", "The databases", Needs::Login, list_databases::run).admin(),
    Command::new(
        "listIndexes",
        "The indexes of a collection",
        Needs::Collection(Action::ListIndexes),
        list_indexes::run,
    ),
    Command::new(
        "listSearchIndexes",
        "The indexes of vectors of a collection",
        Needs::Collection(Action::ListSearchIndexes),
        search_indexes::list,
    ),
    Command::quick(
        "logRotate",
        "No effect: the log is written to standard error",
        Needs::Cluster(Action::LogRotate),
        log_rotate::run,
    )
    .admin(),
    Command::quick("logout", "Forget who the connection is", Needs::Nothing, sasl::log_out),
    Command::quick("ping", "Answers", Needs::Nothing, ping::run),
    Command::quick(
        "planCacheClear",
        "No effect: each query is planned anew",
        Needs::Collection(Action::PlanCacheWrite),
        plan_cache::clear,
    ),
    Command::quick(
        "planCacheClearFilters",
        "No effect: there are no filters of indexes",
        Needs::Collection(Action::PlanCacheIndexFilter),
        plan_cache::clear,
    ),
    Command::quick(
        "planCacheListFilters",
        "The filters of indexes: none",
        Needs::Collection(Action::PlanCacheIndexFilter),
        plan_cache::list_filters,
    ),
    Command::quick("profile", "Keep slow commands", Needs::Arguments(profile::needs), profile::run),
    Command::new("reIndex", "Build indexes anew", Needs::Collection(Action::ReIndex), re_index::run).writes(),
    Command::quick(
        "refreshSessions",
        "No effect: a session lives as long as it is used",
        Needs::Login,
        sessions::refresh,
    ),
    Command::new(
        "renameCollection",
        "Give a collection another name",
        Needs::Arguments(needs::rename_collection),
        rename_collection::run,
    )
    .admin()
    .writes(),
    Command::quick(
        "replSetGetConfig",
        "The configuration of the replica set",
        Needs::Cluster(Action::ReplSetGetConfig),
        replica_set::config,
    )
    .admin(),
    Command::new(
        "replSetGetStatus",
        "The state of the replica set",
        Needs::Cluster(Action::ReplSetGetStatus),
        replica_set::status,
    )
    .admin(),
    Command::new(
        "revokePrivilegesFromRole",
        "Take privileges from a role",
        Needs::Login,
        roles::revoke_privileges,
    )
    .writes(),
    Command::new(
        "revokeRolesFromRole",
        "Let a role no longer inherit others",
        Needs::Login,
        roles::revoke_roles,
    )
    .writes(),
    Command::new("revokeRolesFromUser", "Take roles from a user", Needs::Login, users::revoke).writes(),
    Command::new("rolesInfo", "The roles", Needs::Login, roles::info),
    Command::new("saslContinue", "Go on with an authentication", Needs::Nothing, sasl::proceed),
    Command::new("saslStart", "Begin to authenticate", Needs::Nothing, sasl::start),
    Command::new(
        "serverStatus",
        "Counters of the server",
        Needs::Cluster(Action::ServerStatus),
        server_status::run,
    ),
    Command::quick(
        "setFeatureCompatibilityVersion",
        "No effect: the version is set",
        Needs::Cluster(Action::SetFeatureCompatibilityVersion),
        feature_version::run,
    )
    .admin(),
    Command::quick(
        "setParameter",
        "Change a parameter of the server",
        Needs::Cluster(Action::SetParameter),
        set_parameter::run,
    )
    .admin(),
    Command::quick("shutdown", "Stop the server", Needs::Cluster(Action::Shutdown), shutdown::run).admin(),
    Command::quick("startSession", "A session id", Needs::Login, sessions::start),
    Command::quick("top", "Use of each collection", Needs::Cluster(Action::Top), top::run).admin(),
    Command::new("update", "Update documents", Needs::Arguments(needs::update), update::run)
        .transactions(TransactionSupport::Write)
        .writes(),
    Command::new("updateRole", "Change a role", Needs::Login, roles::update).writes(),
    Command::new(
        "updateSearchIndex",
        "Change the definition of an index of vectors",
        Needs::Collection(Action::UpdateSearchIndex),
        search_indexes::update,
    )
    .writes(),
    Command::new("updateUser", "Change a user", Needs::Login, users::update).writes(),
    Command::new("usersInfo", "The users", Needs::Login, users::info),
    Command::new("validate", "Check a collection", Needs::Collection(Action::Validate), validate::run)
        .writes(),
    Command::quick("whatsmyuri", "The client's address", Needs::Nothing, whatsmyuri::run),
];

fn lookup(name: &str) -> Option<&'static Command> {
    static BY_NAME: LazyLock<HashMap<&str, &Command>> = LazyLock::new(|| {
        let names = |command: &'static Command| command.aliases.iter().copied().chain([command.name]);
        COMMANDS.iter().flat_map(|command| names(command).map(move |name| (name, command))).collect()
    });
    BY_NAME.get(name).copied()
}

/// Fields that drivers' commands mostly have at most.
const FIELDS: usize = 12;

/// Runs the command in `message` and returns its reply, error or not. `reserved` is held as long as it runs.
pub(crate) async fn run(
    message: OpMsg,
    context: &Arc<Context>,
    session: &Arc<Session>,
    reserved: Option<Reserved>,
) -> RawDocumentBuf {
    let started = Instant::now();
    let mut all_fields = Vec::with_capacity(FIELDS);
    let (name, done) = match find(&message, &mut all_fields) {
        Err(error) => ("unknown", Err(error)),
        Ok((command, database, fields)) => {
            let reserved = match reserved {
                _ if command.quick => None,
                // Short requests also wait while the budget is exhausted, since their answers may be long.
                None if context.is_budget_scarce() => Some(context.reserve(1).await),
                reserved => reserved,
            };
            if !command.quick {
                threads::may_block().await;
            }
            let request = |waited| Request {
                context,
                session,
                message: &message,
                fields,
                all_fields: &all_fields,
                command,
                database,
                scope: CommandScope::Standalone,
                at: None,
                permitted: None,
                waited,
            };
            let admitted = match command.is_write(message.body()) {
                true => {
                    let held = reserved.as_ref().map_or(0, Reserved::bytes);
                    admit(context, &fields, held, request).await.map(Some)
                }
                false => Ok(None),
            };
            let done = match admitted {
                Ok(admitted) => {
                    let waited = admitted.as_ref().map_or(Duration::ZERO, |(_, waited)| *waited);
                    let request = request(waited);
                    catch_unwind(AssertUnwindSafe(|| request.run())).unwrap_or_else(|_| {
                        tracing::error!(
                            command = command.name,
                            "a command panicked: this is a bug, please report it"
                        );
                        Err(CommandError::new(ErrorCode::InternalError, "the server failed on this command"))
                    })
                }
                Err(error) => Err(error),
            };
            (command.name, done)
        }
    };
    context.metrics.observe("mongo", name, started.elapsed(), done.is_err());
    let mut reply = match done {
        Ok(mut reply) => {
            reply.append(bson::raw::cstr!("ok"), 1.0);
            reply
        }
        Err(error) => {
            tracing::debug!(
                connection = session.id,
                command = name,
                code = error.code,
                error = error.message,
                "command failed"
            );
            error.reply()
        }
    };
    if let Err(error) = context.topology.append_cluster_time(&context.database, &mut reply) {
        tracing::debug!(error = error.message, "the time of the last change cannot be read");
    }
    reply
}

/// How often a command that waits looks whether it was told to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Lets a write begin that holds so many bytes of the budget, unless writes are locked out: then it waits, as others can see, and for no longer
/// than it may. Returns how long it has waited.
///
/// # Errors
/// `Interrupted`, `MaxTimeMSExpired`, `ExceededMemoryLimit` if what waits holds too much memory; those of what the client may do, which is known before
/// it waits.
async fn admit<'r>(
    context: &Arc<Context>,
    fields: &CommonFields<'_>,
    held: usize,
    request: impl Fn(Duration) -> Request<'r>,
) -> Result<(Writing, Duration)> {
    let goes_on = fields.autocommit.is_some() && fields.start_transaction.is_none();
    if let Some(writing) = context.write_lock.try_enter(goes_on) {
        return Ok((writing, Duration::ZERO));
    }
    let began = Instant::now();
    let waiting = request(Duration::ZERO).waits()?;
    let held = (held, context.locked_out_bytes());
    let mut entered = std::pin::pin!(context.write_lock.enter(goes_on, held));
    let writing = loop {
        match tokio::time::timeout(LOOK, entered.as_mut()).await {
            Ok(writing) => break writing?,
            Err(_) => waiting.check()?,
        }
    };
    // Since it has waited in the runtime.
    threads::may_block().await;
    Ok((writing, began.elapsed()))
}

/// The commands about users of [`EXTERNAL`], which holds nothing else.
const OF_EXTERNAL: &[&str] = &[
    "authenticate",
    "createUser",
    "dropAllUsersFromDatabase",
    "dropUser",
    "grantRolesToUser",
    "hello",
    "logout",
    "revokeRolesFromUser",
    "saslContinue",
    "saslStart",
    "updateUser",
    "usersInfo",
];

/// The command in a message, its database, and the fields that any command may have; its first fields are put into `all_fields`.
fn find<'m>(
    message: &'m OpMsg,
    all_fields: &mut Vec<Field<'m>>,
) -> Result<(&'static Command, &'m str, CommonFields<'m>)> {
    let fields = CommonFields::read(message.body(), all_fields)?;
    let name = fields.name;
    let database = match fields.database {
        Some(value) => value.as_str().ok_or_else(|| {
            CommandError::new(ErrorCode::TypeMismatch, "BSON field '$db' must be of type 'string'")
        })?,
        None => {
            return Err(CommandError::new(
                ProtocolCode::Location40571,
                "OP_MSG requests require a $db argument",
            ));
        }
    };
    // Names that no database can have must not be taken for others.
    if !(database.is_empty() || database == EXTERNAL && OF_EXTERNAL.contains(&name)) {
        Namespace::check_database(database)?;
    }
    let command = lookup(name)
        .ok_or_else(|| CommandError::new(ErrorCode::CommandNotFound, format!("no such command: '{name}'")))?;
    if command.admin && database != "admin" {
        return Err(CommandError::new(
            ErrorCode::Unauthorized,
            format!("{name} may only be run against the admin database."),
        ));
    }
    Ok((command, database, fields))
}

/// The reply to a command in a legacy message: the handshake only.
pub(crate) fn handshake(
    database: &str,
    command: &RawDocument,
    context: &Arc<Context>,
    session: &Arc<Session>,
) -> Result {
    let mut all_fields = Vec::with_capacity(FIELDS);
    let fields = CommonFields::read(command, &mut all_fields)?;
    let name = fields.name;
    let found = lookup(name).filter(|command| matches!(command.name, "hello" | "isMaster"));
    let found = found.ok_or_else(|| op_query::unsupported(name))?;
    let message = OpMsg::of(command);
    let scope = CommandScope::Standalone;
    let request = Request {
        context,
        session,
        message: &message,
        fields,
        all_fields: &all_fields,
        command: found,
        database,
        scope,
        at: None,
        permitted: None,
        waited: Duration::ZERO,
    };
    let mut reply = request.run()?;
    reply.append(bson::raw::cstr!("ok"), 1.0);
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_has_no_duplicates() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name));
        let names: usize = COMMANDS.iter().map(|command| 1 + command.aliases.len()).sum();
        let found: std::collections::HashSet<_> = COMMANDS
            .iter()
            .flat_map(|command| command.aliases.iter().copied().chain([command.name]))
            .collect();
        assert_eq!(names, found.len());
        assert!(found.iter().all(|name| lookup(name).is_some()));
    }
}
