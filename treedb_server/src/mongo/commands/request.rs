//! A running command: its arguments and its context.

use std::cell::{RefCell, RefMut};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, doc};
use treedb_collections::{Collection, CollectionInfo, Namespace};
use treedb_query::query::ErrorCode;

use super::needs::Needs;
use super::writes::Unsatisfiable;
use super::{Command, Result, TransactionSupport, profile, stable_api};
use crate::access::action::Action;
use crate::access::identity::UserId;
use crate::access::resource::Target;
use crate::context::Context;
use crate::mongo::args::{Arg, args, type_name};
use crate::mongo::common_fields::{CommonFields, Field, KEPT};
use crate::mongo::connection::Session;
use crate::mongo::cursors::{Opener, Permission};
use crate::mongo::error::CommandError;
use crate::mongo::op_msg::OpMsg;
use crate::mongo::protocol_code::ProtocolCode;
use crate::mongo::read_concern::{ReadAt, read_at};
use crate::mongo::running::{Running, Waiting};
use crate::mongo::sessions::{ClientSession, CommandScope, OpenTransaction, TransactionNumber};

/// A running command.
pub(crate) struct Request<'a> {
    pub(crate) context: &'a Arc<Context>,
    pub(crate) session: &'a Session,
    pub(crate) message: &'a OpMsg,
    /// Those that any command may have.
    pub(crate) fields: CommonFields<'a>,
    /// Its first [`KEPT`] ones, in their order.
    pub(crate) all_fields: &'a [Field<'a>],
    pub(crate) command: &'static Command,
    pub(crate) database: &'a str,
    pub(crate) scope: CommandScope<'a>,
    /// The time that it reads at, outside of a transaction.
    pub(crate) at: Option<ReadAt>,
    /// Where what it is permitted is noted, while that is found out.
    pub(crate) permitted: Option<&'a RefCell<HashSet<Permission>>>,
    /// How long it waited until it could begin, which its time limit counts.
    pub(crate) waited: Duration,
}

/// Cursors belong to the user of the connection, and need further on what the command did.
impl Opener for Request<'_> {
    fn user(&self) -> Option<UserId> {
        self.session.identity.owner()
    }

    fn session(&self) -> Option<ClientSession> {
        ClientSession::of(&self.fields)
    }

    fn permissions(&self) -> Result<Vec<Permission>> {
        let permitted = RefCell::default();
        self.command.needs.check(&Request { permitted: Some(&permitted), ..*self })?;
        Ok(permitted.into_inner().into_iter().collect())
    }
}

impl<'a> Request<'a> {
    /// Runs it if the client may do so, in its transaction if it has a transaction number.
    pub(crate) fn run(&self) -> Result {
        // What is refused is no operation: nobody can fill the counters and the profile of what he may not use.
        self.command.needs.check(self)?;
        let running = Running::begin(self)?;
        let done = self.run_or_fail();
        running.finish(&done);
        done
    }

    /// Lists it among the operations while it waits until it can begin, if the client may run it.
    pub(super) fn waits(&self) -> Result<Waiting<'a>> {
        self.command.needs.check(self)?;
        Waiting::begin(self)
    }

    /// Runs it, unless a fail point says otherwise.
    fn run_or_fail(&self) -> Result {
        match &self.context.fail_points {
            None => self.run_in_scope(),
            Some(points) => points.enter(self).run(self, || self.run_in_scope()),
        }
    }

    /// Runs it in its transaction if it has a transaction number.
    fn run_in_scope(&self) -> Result {
        stable_api::check(self)?;
        let unsatisfiable = Unsatisfiable::of(self)?;
        let done = match TransactionNumber::read(&self.fields, || self.session.identity.owner())? {
            None => self.execute(),
            Some(txn_number) => self.context.sessions.run(self, txn_number),
        };
        match unsatisfiable {
            Some(unsatisfiable) => done.map(|reply| unsatisfiable.report(reply)),
            None => done,
        }
    }

    /// Runs it in its scope.
    pub(crate) fn execute(&self) -> Result {
        let at = match self.scope {
            CommandScope::Transaction(_) => None,
            _ => read_at(&self.context.database, self.command.name, &self.fields)?,
        };
        self.refuse_to_change_the_oplog()?;
        match profile::read(self) {
            Some(kept) => kept,
            None => (self.command.run)(&Request { at, ..*self }),
        }
    }

    /// Refuses all commands about the collection that shows the change log but some that read it.
    fn refuse_to_change_the_oplog(&self) -> Result<()> {
        let reads = matches!(
            self.command.name,
            "find"
                | "getMore"
                | "killCursors"
                | "count"
                | "distinct"
                | "aggregate"
                | "collStats"
                | "listIndexes"
        );
        if reads || !self.is_about_the_oplog() {
            return Ok(());
        }
        Err(CommandError::new(
            ErrorCode::IllegalOperation,
            "local.oplog.rs shows the change log: it can be read by find, count, distinct and aggregate, and cannot be written",
        ))
    }

    /// True if its own field names the collection that shows the change log.
    pub(crate) fn is_about_the_oplog(&self) -> bool {
        let is_oplog = |name| Namespace::new("local", name).is_ok_and(|name| name.is_oplog());
        self.database == "local" && self.collection_name().is_ok_and(is_oplog)
    }

    /// The databases, by name: those that have collections, `admin`, and `local` if it has the oplog.
    pub(crate) fn databases(&self) -> Result<Vec<String>> {
        let mut names = self.context.database.list_databases()?;
        names.push("admin".to_owned());
        if self.context.database.change_log()?.is_some() {
            names.push("local".to_owned());
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The collections of a database, by name, with the one that shows the change log.
    pub(crate) fn collections(&self, database: &str) -> Result<Vec<CollectionInfo>> {
        let mut found = self.context.database.list_collections(database)?;
        if database == "local"
            && let Some(log) = self.context.database.change_log()?
        {
            let size = i64::try_from(log.options.bytes).unwrap_or(i64::MAX);
            found.push(CollectionInfo {
                namespace: Namespace::new(database, "oplog.rs")?,
                options: doc! { "capped": true, "size": size },
                uuid: None,
            });
            found.sort_by(|one, other| one.namespace.cmp(&other.namespace));
        }
        Ok(found)
    }

    /// Refuses what the client may not do.
    pub(crate) fn authorize(&self, action: Action, target: Target<'_>) -> Result<()> {
        self.context.access.authorize(&self.session.identity, action, target, self.command.name)?;
        if let Some(permitted) = self.permitted {
            permitted.borrow_mut().insert(Permission { action, target: target.owned() });
        }
        Ok(())
    }

    /// Whether the client may do something.
    pub(crate) fn permits(&self, action: Action, target: Target<'_>) -> Result<bool> {
        Ok(self.context.access.permits(&self.session.identity, action, target)?)
    }

    /// Whether the client may read in a database, or in one of its collections.
    pub(crate) fn may_see_database(&self, database: &str) -> Result<bool> {
        if self.permits(Action::Find, Target::Database(database))? {
            return Ok(true);
        }
        for found in self.collections(database)? {
            if self.permits(Action::Find, Target::Collection(database, found.namespace.collection()))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same command, in another scope.
    pub(crate) fn part_of<'w>(&'w self, scope: CommandScope<'w>) -> Request<'w> {
        Request { scope, ..*self }
    }

    /// How it takes part in transactions.
    pub(crate) fn transaction_support(&self) -> TransactionSupport {
        self.command.transactions
    }

    /// True if its own field, or for a `getMore` the field `collection`, names a collection.
    pub(crate) fn is_about_a_collection(&self) -> bool {
        match self.command.needs {
            Needs::Collection(_) => true,
            _ => matches!(
                self.command.name,
                "aggregate" | "collMod" | "create" | "findAndModify" | "getMore" | "insert" | "update"
            ),
        }
    }

    /// How many documents its argument `name` has.
    pub(crate) fn statement_count(&self, name: &str) -> u64 {
        let count = match self.message.sequence(name) {
            Some(documents) => documents.len(),
            None => self.body().get_array(name).map_or(0, |array| array.into_iter().count()),
        };
        count as u64
    }

    /// True if it works on a cursor rather than on a collection.
    pub(crate) fn is_about_cursors(&self) -> bool {
        matches!(self.command.name, "getMore" | "killCursors")
    }

    /// True if its operations name databases, and it has none of its own.
    pub(crate) fn names_its_databases(&self) -> bool {
        self.command.name == "bulkWrite"
    }

    /// The transaction it is part of.
    pub(crate) fn transaction(&self) -> Option<RefMut<'a, OpenTransaction>> {
        match self.scope {
            CommandScope::Transaction(open) => Some(open.borrow_mut()),
            _ => None,
        }
    }

    /// The whole command document.
    pub(crate) fn body(&self) -> &'a RawDocument {
        self.message.body()
    }

    /// The arguments: every field but the first, which is the command's name.
    pub(crate) fn args(&self) -> impl Iterator<Item = Result<Arg<'a>>> {
        let (owner, kept) = (self.command.name, self.all_fields);
        let rest = (kept.len() == KEPT).then(|| args(owner, self.body()).skip(KEPT));
        let kept = kept.iter().skip(1).map(move |(name, value)| Ok(Arg::new(owner, name, *value)));
        kept.chain(rest.into_iter().flatten())
    }

    /// Refuses every option but those that any command accepts: for commands without options of their own.
    pub(crate) fn refuse_options(&self) -> Result<()> {
        self.args().try_for_each(|arg| arg?.ignored_or_unknown())
    }

    /// The value of the command's own field: `{find: "films"}` is about `films`.
    pub(crate) fn subject(&self) -> Result<RawBsonRef<'a>> {
        self.fields.subject.ok_or_else(|| CommandError::protocol("empty command"))
    }

    /// The name of a user or role that the command's own field gives.
    pub(crate) fn subject_name(&self) -> Result<&'a str> {
        self.subject()?.as_str().ok_or_else(|| {
            let command = self.command.name;
            CommandError::new(
                ErrorCode::TypeMismatch,
                format!("BSON field '{command}.{command}' must be a string"),
            )
        })
    }

    /// The collection's name that the command's own field gives.
    pub(crate) fn collection_name(&self) -> Result<&'a str> {
        let subject = self.subject()?;
        subject.as_str().ok_or_else(|| {
            CommandError::new(
                ErrorCode::InvalidNamespace,
                format!("collection name has invalid type {}", type_name(subject)),
            )
        })
    }

    /// The namespace of the collection that the command is about.
    pub(crate) fn namespace(&self) -> Result<Namespace> {
        Ok(Namespace::new(self.database, self.collection_name()?)?)
    }

    /// The collection that the command is about.
    pub(crate) fn collection(&self) -> Result<Collection> {
        Ok(self.context.database.collection_of(self.namespace()?))
    }

    /// The documents of the argument `name`, from a section of the message or from the command itself.
    ///
    /// Those of a section have only had their outer length checked.
    pub(crate) fn documents(&self, name: &str) -> Result<Vec<&'a RawDocument>> {
        if let Some(documents) = self.message.sequence(name) {
            let is_kept = self.all_fields.iter().any(|(found, _)| *found == name);
            if is_kept || self.all_fields.len() == KEPT && self.body().get(name)?.is_some() {
                return Err(CommandError::new(
                    ProtocolCode::Location40433,
                    format!(
                        "Duplicate field between body and document sequence {}.{name}",
                        self.command.name
                    ),
                ));
            }
            return Ok(documents.collect());
        }
        for arg in self.args() {
            let arg = arg?;
            if arg.name == name {
                let array = arg.array()?;
                return array
                    .into_iter()
                    .enumerate()
                    .map(|(i, value)| {
                        let value = value?;
                        value.as_document().ok_or_else(|| {
                            CommandError::new(
                                ErrorCode::TypeMismatch,
                                format!(
                                    "BSON field '{}.{i}' is the wrong type '{}', expected type 'object'",
                                    arg.path(),
                                    type_name(value)
                                ),
                            )
                        })
                    })
                    .collect();
            }
        }
        Err(CommandError::missing(&format!("{}.{name}", self.command.name)))
    }

    /// Refuses sections that are not the argument `name`.
    pub(crate) fn only_sequence(&self, name: &str) -> Result<()> {
        match self.message.sequence_names().find(|found| *found != name) {
            Some(other) => Err(CommandError::new(
                ErrorCode::Location40415,
                format!("BSON field '{}.{other}' is an unknown field.", self.command.name),
            )),
            None => Ok(()),
        }
    }
}

/// An empty reply; the dispatcher adds `ok`.
pub(crate) fn done() -> Result<RawDocumentBuf> {
    Ok(RawDocumentBuf::new())
}
