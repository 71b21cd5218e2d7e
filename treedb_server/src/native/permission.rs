//! What a request needs: the table of the native protocol.
//!
//! The tables of keys and values are collections of a database `kv` to the roles: who may read and write in that may use
//! them.

use treedb_protocol::call::{KvBatch, Op, Request, Shape, UPSERT};
use treedb_protocol::frame::opcode;
use treedb_query::index::vector::VectorDef;

use super::failure::Failure;
use super::prepared::{Kind, Statement};
use crate::access::Access;
use crate::access::action::Action;
use crate::access::identity::Identity;
use crate::access::resource::Target;

/// The database that stands for the tables of keys and values.
pub(super) const KEY_VALUE: &str = "kv";

/// Refuses a request of somebody who may not make it. `statement` is the one that it executes: who may prepare a statement may not always
/// be allowed to execute it.
///
/// # Errors
/// `Unauthorized`; those of reading users.
pub(super) fn check(
    access: &Access,
    identity: &Identity,
    code: u16,
    request: &Request<'_>,
    statement: Option<&Statement>,
) -> Result<(), Failure> {
    if !access.is_required() {
        return Ok(());
    }
    let name = opcode::name(code);
    let collection = |namespace: &str, actions: &[Action]| {
        actions.iter().try_for_each(|action| check_action(access, identity, *action, namespace, name))
    };
    let table = |table: &str, actions: &[Action]| {
        actions.iter().try_for_each(|action| {
            Ok(access.authorize(identity, *action, Target::Collection(KEY_VALUE, table), name)?)
        })
    };
    match request {
        Request::Ping(_) | Request::Authenticate(_) | Request::Prove(_) => Ok(()),
        // The pull itself is checked before each batch and reports the error; without a cursor there is no pull.
        Request::Credit(_) => Ok(()),
        // Cursors belong to the connection; each batch asks whether their collection may still be read: `check_find`.
        Request::Next(_) | Request::Close(_) | Request::Pull(_) | Request::Forget(_) => {
            Ok(access.require_login(identity, name)?)
        }
        Request::Prepare(prepare) => match prepare.shape {
            Shape::Get | Shape::Find { .. } | Shape::Count(_) => {
                collection(prepare.namespace, &[Action::Find])
            }
            Shape::Insert(_) => collection(prepare.namespace, &[Action::Insert]),
            Shape::Update { .. } => collection(prepare.namespace, &[Action::Update]),
            Shape::Delete(_) => collection(prepare.namespace, &[Action::Remove]),
            _ => Err(Failure::unknown()),
        },
        Request::Execute(execute) => match statement {
            None => Ok(access.require_login(identity, name)?),
            Some(statement) => collection(
                statement.namespace(),
                match statement.kind() {
                    Kind::Get | Kind::Find { .. } | Kind::Count(_) => &[Action::Find],
                    Kind::Insert(_) => &[Action::Insert],
                    Kind::Update { .. } if execute.flags & UPSERT != 0 => &[Action::Update, Action::Insert],
                    Kind::Update { .. } => &[Action::Update],
                    Kind::Delete(_) => &[Action::Remove],
                },
            ),
        },
        Request::Insert(insert) => collection(insert.namespace, &[Action::Insert]),
        Request::Get(get) => collection(get.namespace, &[Action::Find]),
        Request::Find(find) => collection(find.namespace, &[Action::Find]),
        Request::Count(count) => collection(count.namespace, &[Action::Find]),
        Request::VectorSearch(search) => collection(search.namespace, &[Action::Find]),
        Request::Update(update) if update.upsert => {
            collection(update.namespace, &[Action::Update, Action::Insert])
        }
        Request::Update(update) => collection(update.namespace, &[Action::Update]),
        Request::Delete(delete) => collection(delete.namespace, &[Action::Remove]),
        Request::CreateIndex(create) => {
            let action = match VectorDef::is_specified_by(create.spec) {
                true => Action::CreateSearchIndexes,
                false => Action::CreateIndex,
            };
            collection(create.namespace, &[action])
        }
        // Without that the answer has as much as the user may list: `may_list_search_indexes`.
        Request::ListIndexes(list) if list.every_kind => {
            collection(list.namespace, &[Action::ListIndexes, Action::ListSearchIndexes])
        }
        Request::ListIndexes(list) => collection(list.namespace, &[Action::ListIndexes]),
        // For a search index also `check_drop_search_index`: its name alone does not say that it is one.
        Request::DropIndex(drop) => collection(drop.namespace, &[Action::DropIndex]),
        Request::UpdateSearchIndex(update) => collection(update.namespace, &[Action::UpdateSearchIndex]),
        Request::KvGet(get) => table(get.table, &[Action::Find]),
        Request::KvRange(range) => table(range.table, &[Action::Find]),
        Request::KvPut(put) => table(put.table, &[Action::Insert, Action::Update]),
        Request::KvDelete(delete) => table(delete.table, &[Action::Remove]),
        Request::KvBatch(batch) => table(batch.table, batch_actions(batch)),
        _ => Err(Failure::unknown()),
    }
}

/// Refuses an action on a collection. A name without a dot is refused where the request is executed.
fn check_action(
    access: &Access,
    identity: &Identity,
    action: Action,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    Ok(access.authorize(identity, action, Target::Collection(database, collection), name)?)
}

/// Refuses the next batch of a cursor to somebody who may not, or no longer, read its collection.
///
/// # Errors
/// As of [`check`].
pub(super) fn check_find(access: &Access, identity: &Identity, namespace: &str) -> Result<(), Failure> {
    check_action(access, identity, Action::Find, namespace, opcode::name(opcode::NEXT))
}

/// Whether search indexes are listed to somebody who may list the others. `listIndexes` does not list them either.
///
/// # Errors
/// Those of reading users.
pub(super) fn may_list_search_indexes(
    access: &Access,
    identity: &Identity,
    namespace: &str,
) -> Result<bool, Failure> {
    let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    Ok(access.permits(identity, Action::ListSearchIndexes, Target::Collection(database, collection))?)
}

/// Refuses to drop a search index.
///
/// # Errors
/// As of [`check`].
pub(super) fn check_drop_search_index(
    access: &Access,
    identity: &Identity,
    namespace: &str,
) -> Result<(), Failure> {
    check_action(access, identity, Action::DropSearchIndex, namespace, opcode::name(opcode::DROP_INDEX))
}

fn batch_actions(batch: &KvBatch<'_>) -> &'static [Action] {
    let deletes = batch.ops.iter().any(|op| matches!(op, Op::Delete(_)));
    let puts = batch.ops.iter().any(|op| matches!(op, Op::Put(..)));
    match (puts, deletes) {
        (false, true) => &[Action::Remove],
        (true, true) => &[Action::Insert, Action::Update, Action::Remove],
        _ => &[Action::Insert, Action::Update],
    }
}
