//! `applyOps`: applies entries of an oplog, one after the other, as `mongorestore --oplogReplay` sends them.
//!
//! | `op` | what it does |
//! |---|---|
//! | `i` | inserts the document, or replaces the one with its `_id` |
//! | `u` | replaces or updates the document that `o2` names, by operators or by `{ $v: 2, diff: .. }`; there must be one |
//! | `d` | deletes the document with the `_id`, if there is one |
//! | `c` | the command of [`DEFINITIONS`] that `o` is, or `applyOps` with further entries |
//! | `n` | nothing |
//!
//! Each is what the command is that does the same (`insert`, `update`, `drop`..), with its checks, and needs the rights of that. All
//! entries are read, and all rights checked, before the first is applied. They are no transaction: those before one that fails stay.

use bson::raw::cstr;
use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_collections::{Collection, Namespace};
use treedb_query::query::{ErrorCode, interrupt};

use super::request::Request;
use super::writes::write_concern;
use super::{Command, Result, lookup};
use crate::mongo::args::args;
use crate::mongo::common_fields::{CommonFields, Field};
use crate::mongo::error::CommandError;
use crate::mongo::op_msg::OpMsg;
use crate::mongo::protocol_code::ProtocolCode;
use crate::mongo::sessions::CommandScope;

/// The commands that an entry may hold, and their errors that say that there is nothing to do: an entry may be applied twice.
const DEFINITIONS: &[(&str, &[ErrorCode])] = &[
    ("collMod", &[ErrorCode::NamespaceNotFound, ErrorCode::IndexNotFound]),
    ("convertToCapped", &[ErrorCode::NamespaceNotFound]),
    ("create", &[ErrorCode::NamespaceExists]),
    ("createIndexes", &[]),
    ("drop", &[]),
    ("dropDatabase", &[]),
    ("dropIndexes", &[ErrorCode::NamespaceNotFound, ErrorCode::IndexNotFound]),
    ("renameCollection", &[ErrorCode::NamespaceNotFound, ErrorCode::NamespaceExists]),
];

/// How deep entries may be in entries.
const DEEPEST: usize = 10;

/// What every entry is applied with.
struct Options<'a> {
    /// Documents need not match validators.
    bypass: bool,
    concern: Option<&'a RawDocument>,
}

/// A command that does what an entry says.
struct Statement {
    command: &'static Command,
    database: String,
    message: OpMsg,
}

/// An entry to apply.
struct Step {
    statement: Statement,
    kind: Kind,
}

enum Kind {
    /// And what replaces the document if it is there.
    Insert(On, Statement),
    Update(On),
    /// An update by a difference, which no command has: the statement says who may do it.
    Difference {
        on: On,
        filter: RawDocumentBuf,
        difference: RawDocumentBuf,
        bypass: bool,
    },
    Delete(On),
    /// The errors are none.
    Definition {
        name: &'static str,
        benign: &'static [ErrorCode],
    },
}

/// The collection of an entry.
struct On {
    namespace: Namespace,
    /// That which the entry says it has.
    uuid: Option<Vec<u8>>,
}

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut options = Options { bypass: false, concern: None };
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            // Entries are never applied all or none, nor are updates made upserts.
            "allowAtomic" | "alwaysUpsert" | "preCondition" => arg.unsupported()?,
            "bypassDocumentValidation" => options.bypass = arg.bool()?,
            "writeConcern" => {
                let concern = arg.document()?;
                write_concern(concern)?;
                options.concern = Some(concern);
            }
            _ => arg.ignored_or_unknown()?,
        }
    }
    let mut steps = Vec::new();
    read_all(request.subject()?, &options, 0, &mut steps)?;
    let drops_database = |step: &Step| matches!(step.kind, Kind::Definition { name: "dropDatabase", .. });
    if steps.len() > 1 && steps.iter().any(drops_database) {
        return Err(CommandError::new(
            ProtocolCode::Location6275900,
            "dropDatabase in an applyOps must be the only entry",
        ));
    }
    for step in &steps {
        step.statement.check_rights(request)?;
    }
    let (mut applied, mut all, mut results) = (0_i32, true, RawArrayBuf::new());
    for step in &steps {
        interrupt::check()?;
        let done = step.apply(request);
        applied += 1;
        results.push(*done.as_ref().unwrap_or(&false));
        match done {
            Ok(done) => all &= done,
            Err(error) => return Err(error.with_fields(rawdoc! { "applied": applied, "results": results })),
        }
    }
    let reply = rawdoc! { "applied": applied, "results": results };
    if !all {
        let error = CommandError::new(
            ErrorCode::UnknownError,
            "applyOps had one or more errors applying ops: a result is false where no document was found to update",
        );
        return Err(error.with_fields(reply));
    }
    Ok(reply)
}

/// Reads an array of entries, `depth` entries deep.
fn read_all(
    entries: RawBsonRef<'_>,
    options: &Options<'_>,
    depth: usize,
    steps: &mut Vec<Step>,
) -> Result<()> {
    let Some(entries) = entries.as_array() else {
        return Err(CommandError::new(
            ErrorCode::TypeMismatch,
            "BSON field 'applyOps.applyOps' must be an array",
        ));
    };
    if depth >= DEEPEST {
        return Err(CommandError::new(ErrorCode::FailedToParse, "Too many nested applyOps"));
    }
    for entry in entries {
        let entry = entry?.as_document().ok_or_else(|| {
            CommandError::new(ErrorCode::TypeMismatch, "an entry of applyOps must be an object")
        })?;
        read(entry, options, depth, steps)?;
    }
    Ok(())
}

/// Reads an entry. Those who apply it twice, and who take it from another server, get no errors from fields that are not needed.
fn read(entry: &RawDocument, options: &Options<'_>, depth: usize, steps: &mut Vec<Step>) -> Result<()> {
    let (mut op, mut ns, mut o, mut o2, mut uuid, mut upsert) = (None, None, None, None, None, false);
    for arg in args("applyOps", entry) {
        let arg = arg?;
        match arg.name {
            "op" => op = Some(arg.str()?),
            "ns" => ns = Some(arg.str()?),
            "o" => o = Some(arg.document()?),
            "o2" => o2 = Some(arg.document()?),
            "b" => upsert = arg.bool()?,
            "ui" => match arg.value() {
                RawBsonRef::Binary(binary) => uuid = Some(binary.bytes.to_vec()),
                _ => arg.unsupported()?,
            },
            _ => {}
        }
    }
    let missing = |name: &str| {
        CommandError::new(
            ErrorCode::IllegalOperation,
            format!("op does not contain required \"{name}\" field"),
        )
    };
    let op = op.ok_or_else(|| missing("op"))?;
    if op == "n" {
        return Ok(());
    }
    let (ns, o) = (ns.ok_or_else(|| missing("ns"))?, o.ok_or_else(|| missing("o"))?);
    if op == "c" {
        return read_definition(ns, o, uuid.is_some(), options, depth, steps);
    }
    let on = On { namespace: Namespace::parse(ns)?, uuid };
    steps.push(match op {
        "i" => {
            let statement = options.write(&on, "insert", "documents", o.to_owned())?;
            let instead = rawdoc! { "q": key(o)?, "u": o.to_owned(), "upsert": true };
            let instead = options.write(&on, "update", "updates", instead)?;
            Step { statement, kind: Kind::Insert(on, instead) }
        }
        "u" => {
            let filter = o2.ok_or_else(|| missing("o2"))?.to_owned();
            match difference(o)? {
                Some(difference) => {
                    let rights = rawdoc! { "q": filter.clone(), "u": RawDocumentBuf::new() };
                    let statement = options.write(&on, "update", "updates", rights)?;
                    let (difference, bypass) = (difference.to_owned(), options.bypass);
                    Step { statement, kind: Kind::Difference { on, filter, difference, bypass } }
                }
                None => {
                    let update = rawdoc! { "q": filter, "u": without(o, &["$v"])?, "upsert": upsert };
                    let statement = options.write(&on, "update", "updates", update)?;
                    Step { statement, kind: Kind::Update(on) }
                }
            }
        }
        "d" => {
            let delete = rawdoc! { "q": key(o)?, "limit": 1 };
            let statement = options.write(&on, "delete", "deletes", delete)?;
            Step { statement, kind: Kind::Delete(on) }
        }
        other => {
            return Err(CommandError::new(
                ErrorCode::FailedToParse,
                format!("applyOps: unknown op '{other}': i, u, d, c and n can be applied"),
            ));
        }
    });
    Ok(())
}

/// Reads an entry that is a command.
fn read_definition(
    ns: &str,
    o: &RawDocument,
    has_uuid: bool,
    options: &Options<'_>,
    depth: usize,
    steps: &mut Vec<Step>,
) -> Result<()> {
    let Some((database, "$cmd")) = ns.split_once('.') else {
        return Err(CommandError::new(
            ErrorCode::InvalidNamespace,
            format!("the namespace of a command is DATABASE.$cmd, not {ns}"),
        ));
    };
    // The name is that of a database.
    Namespace::new(database, "any")?;
    let Some((name, subject)) = o.iter().next().transpose()? else {
        return Err(CommandError::new(ErrorCode::FailedToParse, "a command of applyOps is empty"));
    };
    if name.as_str() == "applyOps" {
        for field in o.iter().skip(1) {
            let (name, _) = field?;
            // The parts of a transaction: what would be applied depends on other entries.
            if matches!(name.as_str(), "prepare" | "partialTxn" | "count") {
                return Err(CommandError::not_implemented(format!(
                    "applyOps with the field '{}' is not supported",
                    name.as_str()
                )));
            }
        }
        return read_all(subject, options, depth + 1, steps);
    }
    let Some(&(name, benign)) = DEFINITIONS.iter().find(|(known, _)| *known == name.as_str()) else {
        return Err(CommandError::not_implemented(format!(
            "applyOps does not apply the command '{}'",
            name.as_str()
        )));
    };
    if name == "create" && has_uuid {
        return Err(CommandError::not_implemented(
            "a collection cannot be created with a given UUID: leave 'ui' out of the entry, as mongorestore does",
        ));
    }
    let body = match name {
        "createIndexes" => {
            let mut indexes = RawArrayBuf::new();
            indexes.push(without(o, &[name])?);
            let mut body = RawDocumentBuf::new();
            body.append(cstr!("createIndexes"), subject);
            body.append(cstr!("indexes"), indexes);
            body
        }
        _ => without(o, &["stayTemp"])?,
    };
    let database = if name == "renameCollection" { "admin" } else { database };
    let statement = options.statement(name, database, body)?;
    steps.push(Step { statement, kind: Kind::Definition { name, benign } });
    Ok(())
}

/// A document without some of its fields.
fn without(document: &RawDocument, names: &[&str]) -> Result<RawDocumentBuf> {
    let mut rest = RawDocumentBuf::new();
    for field in document {
        let (name, value) = field?;
        if !names.contains(&name.as_str()) {
            rest.append(name, value);
        }
    }
    Ok(rest)
}

/// `{ _id: .. }` of a document.
fn key(document: &RawDocument) -> Result<RawDocumentBuf> {
    match document.get("_id")? {
        Some(id) => {
            let mut key = RawDocumentBuf::new();
            key.append(cstr!("_id"), id);
            Ok(key)
        }
        None => {
            Err(CommandError::new(ErrorCode::FailedToParse, "an entry of applyOps has no _id in its 'o'"))
        }
    }
}

/// The difference of an update; `None` if it is a document or has operators.
fn difference(update: &RawDocument) -> Result<Option<&RawDocument>> {
    let version = update.get("$v")?.and_then(crate::mongo::args::number);
    match (version, update.get("diff")?) {
        (Some(2.0), Some(RawBsonRef::Document(difference))) => Ok(Some(difference)),
        (Some(2.0), _) => Err(CommandError::new(
            ErrorCode::FailedToParse,
            "an update with $v: 2 must have the difference in the field 'diff'",
        )),
        _ => Ok(None),
    }
}

impl Options<'_> {
    /// A write of one document.
    fn write(&self, on: &On, name: &'static str, field: &str, what: RawDocumentBuf) -> Result<Statement> {
        let mut statements = RawArrayBuf::new();
        statements.push(what);
        let mut body = RawDocumentBuf::new();
        body.append(bson::raw::CString::try_from(name)?, on.namespace.collection());
        body.append(bson::raw::CString::try_from(field)?, statements);
        if self.bypass && name != "delete" {
            body.append(cstr!("bypassDocumentValidation"), true);
        }
        self.statement(name, on.namespace.database(), body)
    }

    fn statement(&self, name: &str, database: &str, mut body: RawDocumentBuf) -> Result<Statement> {
        let command = lookup(name).ok_or_else(|| {
            CommandError::new(ErrorCode::CommandNotFound, format!("no such command: '{name}'"))
        })?;
        if let Some(concern) = self.concern {
            body.append(cstr!("writeConcern"), concern.to_owned());
        }
        Ok(Statement { command, database: database.to_owned(), message: OpMsg::of(&body) })
    }
}

impl Statement {
    /// The statement as a command of the client that has sent `request`. Its fields are put into `all_fields`.
    fn request<'s>(&'s self, request: &'s Request<'_>, all_fields: &'s mut Vec<Field<'s>>) -> Request<'s> {
        // It has been checked.
        let fields = CommonFields::read(self.message.body(), all_fields).unwrap_or_default();
        Request {
            message: &self.message,
            fields,
            all_fields,
            command: self.command,
            database: &self.database,
            scope: CommandScope::Standalone,
            at: None,
            ..*request
        }
    }

    fn check_rights(&self, request: &Request<'_>) -> Result<()> {
        self.command.needs.check(&self.request(request, &mut Vec::new()))
    }

    /// Executes it. The first document that it could not write is its error.
    fn execute(&self, request: &Request<'_>) -> Result {
        let reply = self.request(request, &mut Vec::new()).execute()?;
        if let Some(RawBsonRef::Array(errors)) = reply.get("writeErrors")?
            && let Some(RawBsonRef::Document(error)) = errors.into_iter().next().transpose()?
        {
            let message = error.get_str("errmsg").unwrap_or("the write failed");
            return Err(CommandError::coded(error.get_i32("code").unwrap_or_default(), message));
        }
        Ok(reply)
    }
}

impl On {
    /// The collection; `None` if it does not exist.
    fn collection(&self, request: &Request<'_>) -> Result<Option<Collection>> {
        let database = &request.context.database;
        if let Some(uuid) = &self.uuid {
            let listed = database.list_collections(self.namespace.database())?;
            let own = listed.iter().find(|info| info.namespace == self.namespace).and_then(|info| info.uuid);
            if own.is_none_or(|own| own.bytes().as_slice() != uuid.as_slice()) {
                return Err(CommandError::new(
                    ProtocolCode::Location3318200,
                    format!(
                        "Namespace '{}' and the UUID of the entry point to different collections: leave 'ui' out of entries of \
                         another server",
                        self.namespace
                    ),
                ));
            }
        }
        let collection = database.collection(self.namespace.as_str())?;
        Ok(collection.indexes()?.is_some().then_some(collection))
    }

    /// The collection, which has to exist.
    fn existing(&self, request: &Request<'_>) -> Result<Collection> {
        self.collection(request)?.ok_or_else(|| {
            CommandError::new(
                ErrorCode::NamespaceNotFound,
                format!(
                    "cannot apply insert or update operation on a non-existent namespace {}",
                    self.namespace
                ),
            )
        })
    }
}

impl Step {
    /// Applies the entry. False if there is no document to update.
    fn apply(&self, request: &Request<'_>) -> Result<bool> {
        match &self.kind {
            Kind::Insert(on, instead) => {
                on.existing(request)?;
                match self.statement.execute(request) {
                    Err(error) if error.code == ErrorCode::DuplicateKey.number() => {
                        instead.check_rights(request)?;
                        instead.execute(request)?;
                        Ok(true)
                    }
                    done => done.map(|_| true),
                }
            }
            Kind::Update(on) => {
                on.existing(request)?;
                let reply = self.statement.execute(request)?;
                Ok(reply.get("n")?.and_then(crate::mongo::args::number).is_some_and(|found| found > 0.0))
            }
            Kind::Difference { on, filter, difference, bypass } => {
                let collection = on.existing(request)?;
                let collection = if *bypass { collection.without_validation() } else { collection };
                Ok(collection.apply_difference(filter, difference)?)
            }
            Kind::Delete(on) => {
                if on.collection(request)?.is_some() {
                    self.statement.execute(request)?;
                }
                Ok(true)
            }
            Kind::Definition { name, benign } => {
                // It is not created by an index.
                if *name == "createIndexes" {
                    let mut all_fields = Vec::new();
                    let statement = self.statement.request(request, &mut all_fields);
                    if statement.collection()?.indexes()?.is_none() {
                        return Ok(true);
                    }
                }
                match self.statement.execute(request) {
                    Err(error) if benign.iter().any(|none| none.number() == error.code) => Ok(true),
                    done => done.map(|_| true),
                }
            }
        }
    }
}
