//! Running statements: the database in use, the cursor that `it` continues, and how results are shown.

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc, rawdoc};
use treedb_query::error::ErrorCode;

use super::backend::{Backend, Stop};
use super::{help, notation, table};
use crate::cli::Failure;
use crate::cli::mongo_client::needs_user;
use crate::statements::literal::Unreadable;
use crate::statements::methods::{self, Plan, Show, Write as Written};
use crate::statements::statement::{AskPassword, Calls, Format, SHOW, Statement, parse};

/// Documents that are shown at a time.
const PAGE: usize = 20;
/// Documents of which a table is made where nobody asks for the next ones.
const BATCH: usize = 1_000;

/// Why a statement failed.
#[derive(Debug)]
pub(super) enum Problem {
    /// An error of the server.
    Server { code: i32, name: String, message: String },
    /// The statement is not understood, at a place.
    Unreadable(Unreadable, String),
    /// Anything else.
    Other(String),
    /// What is written to has been closed.
    Closed,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Server { code, name, message } => write!(f, "error {code} ({name}): {message}"),
            Problem::Unreadable(Unreadable::Incomplete(what), _) => f.write_str(what),
            Problem::Unreadable(Unreadable::Wrong(at, message), text) => {
                let start = text.get(..*at).and_then(|before| before.rfind('\n')).map_or(0, |line| line + 1);
                let line = text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
                let column = text.get(start..*at).unwrap_or_default().chars().count();
                write!(f, "{message}\n  {line}\n  {:column$}^", "")
            }
            Problem::Other(message) => f.write_str(&lines(message)),
            Problem::Closed => f.write_str("nobody reads the results any more"),
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Problem::Other(failure.0)
    }
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Problem::Other(message)
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Problem::Closed,
            _ => Problem::Other(format!("cannot write: {error}")),
        }
    }
}

fn malformed(error: impl fmt::Display) -> Problem {
    Problem::Other(format!("the server's answer is not understood: {error}"))
}

/// How documents are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As a table if they fit into one.
    Table,
    /// With a line for each field.
    Expanded,
    /// As JSON, one a line.
    Lines,
}

/// A result that has more documents.
struct Cursor {
    id: i64,
    database: String,
    collection: String,
    left: VecDeque<RawDocumentBuf>,
}

/// The state between statements.
pub(super) struct Runner {
    backend: Backend,
    stop: Arc<Stop>,
    /// Ctrl-C was pressed since the statement began.
    interrupted: Arc<AtomicBool>,
    database: String,
    form: Form,
    interactive: bool,
    cursor: Option<Cursor>,
}

/// What a statement asks of who runs it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Exit,
}

impl Runner {
    pub(super) fn new(
        backend: Backend,
        stop: Arc<Stop>,
        interrupted: Arc<AtomicBool>,
        database: String,
        form: Form,
        interactive: bool,
    ) -> Self {
        Runner { backend, stop, interrupted, database, form, interactive, cursor: None }
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    pub(super) fn close(mut self) -> Result<(), Failure> {
        self.forget_cursor();
        self.backend.close()
    }

    /// Runs all statements of a text, until one fails.
    pub(super) fn run_all(
        &mut self,
        text: &str,
        password: AskPassword<'_>,
        out: &mut dyn Write,
    ) -> Result<Next, Problem> {
        let mut rest = text;
        self.interrupted.store(false, Ordering::Relaxed);
        loop {
            let parsed = parse(rest, password);
            match parsed.map_err(|error| Problem::Unreadable(error, rest.to_owned()))? {
                None => return Ok(Next::Continue),
                Some((Statement::Exit, _)) => return Ok(Next::Exit),
                Some((statement, after)) => {
                    self.run(statement, out)?;
                    rest = after;
                }
            }
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Problem::Other("interrupted".to_owned()));
            }
        }
    }

    fn run(&mut self, statement: Statement, out: &mut dyn Write) -> Result<(), Problem> {
        match statement {
            Statement::Exit => {}
            Statement::Help(topic) => out.write_all(help::about(topic.as_deref()).as_bytes())?,
            Statement::More => match self.cursor.take() {
                Some(cursor) => self.page(cursor, out)?,
                None => writeln!(out, "there are no more documents")?,
            },
            Statement::Use(name) => {
                // What cannot be a name shall not be found out by the next command only.
                treedb_collections::Namespace::new(&name, "any").map_err(|error| error.message)?;
                if self.interactive {
                    writeln!(out, "switched to {name}")?;
                }
                self.database = name;
            }
            Statement::Format(format) => {
                let (wanted, what) = match format {
                    Format::Expanded => (Form::Expanded, "a line for each field"),
                    Format::Lines => (Form::Lines, "JSON, a document a line"),
                };
                self.form = if self.form == wanted { Form::Table } else { wanted };
                let what = if self.form == wanted { what } else { "tables" };
                writeln!(out, "documents are shown as {what}")?;
            }
            Statement::Show(what) => {
                let plan = methods::show(&what, &self.database);
                self.execute(plan.ok_or_else(|| format!("there is no show {what}: {SHOW}"))?, out)?;
            }
            Statement::Calls(calls) => self.call(&calls, out)?,
        }
        Ok(())
    }

    fn call(&mut self, calls: &Calls, out: &mut dyn Write) -> Result<(), Problem> {
        let database = calls.database.clone().unwrap_or_else(|| self.database.clone());
        match (&calls.collection, &calls.calls[..]) {
            (None, []) => writeln!(out, "{database}")?,
            (Some(collection), []) => writeln!(out, "{database}.{collection}")?,
            (None, [call]) if call.name == "getName" => writeln!(out, "{database}")?,
            (None, [call]) if call.name == "auth" => match &call.arguments[..] {
                [Bson::String(name), Bson::String(password)] => {
                    self.forget_cursor();
                    self.backend.log_in(name, password, &database)?;
                    writeln!(out, "authenticated as {name}")?;
                }
                _ => return Err("the form is auth(\"user\", passwordPrompt())".to_owned().into()),
            },
            _ => {
                if let Some(plan) = Plan::of(calls, &self.database)? {
                    self.execute(plan, out)?;
                }
            }
        }
        Ok(())
    }

    /// Sends a command. Errors of the server are errors here.
    fn ask(&mut self, command: &Document, database: &str) -> Result<RawDocumentBuf, Problem> {
        let mut command = command.clone();
        command.insert("$db", database);
        let command = RawDocumentBuf::try_from(&command).map_err(malformed)?;
        let reply = self.backend.ask(&command, &self.stop)?;
        if number(&reply, "ok") == Some(1.0) {
            return Ok(reply);
        }
        Err(error_in(&reply))
    }

    fn page_size(&self) -> usize {
        if self.interactive { PAGE } else { BATCH }
    }

    fn execute(&mut self, mut plan: Plan, out: &mut dyn Write) -> Result<(), Problem> {
        let size = self.page_size() as i32;
        if matches!(plan.show, Show::Documents) {
            plan.limit_batch(size);
            self.forget_cursor();
        }
        let reply = self.ask(&plan.command, &plan.database)?;
        match plan.show {
            Show::Documents => {
                let cursor = self.cursor_of(&reply, "firstBatch")?;
                self.page(cursor, out)
            }
            Show::Names => {
                for document in self.everything(&reply)? {
                    let name = document.get_str("name").unwrap_or_default();
                    match self.form {
                        Form::Lines => writeln!(out, "{}", notation::quoted(name))?,
                        _ => writeln!(out, "{}", printable(name))?,
                    }
                }
                Ok(())
            }
            Show::Counted => {
                let mut count = 0;
                self.each_batch(&reply, &mut |batch| count += batch.len())?;
                Ok(writeln!(out, "{count}")?)
            }
            Show::First => match self.everything(&reply)?.first() {
                Some(document) => self.document(document, out),
                None => Ok(writeln!(out, "null")?),
            },
            Show::FirstNumber => {
                let found = self.everything(&reply)?;
                let n = found.first().and_then(|document| number(document, "n")).unwrap_or_default();
                Ok(writeln!(out, "{n}")?)
            }
            Show::Field(name) => match reply.get(name).map_err(malformed)? {
                Some(RawBsonRef::Document(document)) => self.document(document, out),
                Some(value) => self.value(value, out),
                None => Ok(writeln!(out, "null")?),
            },
            Show::Table(name) => {
                let mut documents = Vec::new();
                for value in reply.get_array(name).map_err(malformed)? {
                    if let RawBsonRef::Document(document) = value.map_err(malformed)? {
                        documents.push(document.to_owned());
                    }
                }
                self.documents(&documents, out)
            }
            Show::Reply => {
                let shown = without_envelope(&reply);
                if shown.iter().next().is_none() && self.form != Form::Lines {
                    return Ok(writeln!(out, "ok")?);
                }
                self.document(&shown, out)
            }
            Show::Written(write) => {
                let done = written(&reply, &write);
                let raw = RawDocumentBuf::try_from(&done).map_err(malformed)?;
                match write_error(&reply) {
                    None => self.document(&raw, out),
                    Some(problem) => {
                        if matches!(write, Written::InsertedMany(_)) {
                            self.document(&raw, out)?;
                        }
                        Err(problem)
                    }
                }
            }
        }
    }

    /// The cursor of a reply, with the documents that came with it.
    fn cursor_of(&self, reply: &RawDocument, batch: &str) -> Result<Cursor, Problem> {
        let cursor = reply.get_document("cursor").map_err(malformed)?;
        let namespace = cursor.get_str("ns").map_err(malformed)?;
        let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
        let mut left = VecDeque::new();
        for document in cursor.get_array(batch).map_err(malformed)? {
            if let RawBsonRef::Document(document) = document.map_err(malformed)? {
                left.push_back(document.to_owned());
            }
        }
        let id = cursor.get_i64("id").map_err(malformed)?;
        Ok(Cursor { id, database: database.to_owned(), collection: collection.to_owned(), left })
    }

    /// The next documents of a cursor, which may have none left.
    fn more(&mut self, cursor: Cursor) -> Result<Cursor, Problem> {
        let get_more = doc! {
            "getMore": cursor.id, "collection": &cursor.collection, "batchSize": self.page_size() as i32,
        };
        let reply = self.ask(&get_more, &cursor.database)?;
        let next = self.cursor_of(&reply, "nextBatch")?;
        Ok(Cursor { id: next.id, left: next.left, ..cursor })
    }

    /// All documents of a cursor.
    fn everything(&mut self, reply: &RawDocument) -> Result<Vec<RawDocumentBuf>, Problem> {
        let mut all = Vec::new();
        self.each_batch(reply, &mut |batch| all.extend(batch))?;
        Ok(all)
    }

    /// The batches of a cursor until its end.
    fn each_batch(
        &mut self,
        reply: &RawDocument,
        each: &mut dyn FnMut(VecDeque<RawDocumentBuf>),
    ) -> Result<(), Problem> {
        let mut cursor = self.cursor_of(reply, "firstBatch")?;
        each(std::mem::take(&mut cursor.left));
        while cursor.id != 0 {
            cursor = self.more(cursor)?;
            each(std::mem::take(&mut cursor.left));
        }
        Ok(())
    }

    /// Shows a page; without somebody who could ask for the next one, all of them.
    fn page(&mut self, mut cursor: Cursor, out: &mut dyn Write) -> Result<(), Problem> {
        let size = self.page_size();
        let mut shown = 0;
        loop {
            while cursor.left.len() < size && cursor.id != 0 {
                let mut before = std::mem::take(&mut cursor.left);
                cursor = self.more(cursor)?;
                // Of a tailable cursor, whose end may come later.
                let nothing = cursor.left.is_empty();
                before.append(&mut cursor.left);
                cursor.left = before;
                if nothing {
                    break;
                }
            }
            let page: Vec<RawDocumentBuf> = cursor.left.drain(..size.min(cursor.left.len())).collect();
            shown += page.len();
            if let Err(problem) = self.documents(&page, out) {
                // Nobody reads any more: it is closed at the server when the shell ends.
                self.cursor = Some(cursor);
                return Err(problem);
            }
            let is_done = cursor.id == 0 && cursor.left.is_empty();
            if is_done || self.interactive || self.interrupted.load(Ordering::Relaxed) {
                if shown == 0 && self.interactive {
                    writeln!(out, "no documents")?;
                }
                if !is_done {
                    if self.interactive {
                        writeln!(out, "type \"it\" for more")?;
                    }
                    self.cursor = Some(cursor);
                }
                return Ok(());
            }
        }
    }

    /// Closes the cursor that nobody will ask for any more.
    fn forget_cursor(&mut self) {
        if let Some(Cursor { id, database, collection, .. }) = self.cursor.take()
            && id != 0
        {
            // It would be closed anyway, some minutes later.
            let _ = self.ask(&doc! { "killCursors": collection, "cursors": [id] }, &database);
        }
    }

    fn documents(&self, documents: &[RawDocumentBuf], out: &mut dyn Write) -> Result<(), Problem> {
        if self.form == Form::Table
            && !documents.is_empty()
            && let Some(table) = table::of(documents, columns())
        {
            return Ok(out.write_all(table.as_bytes())?);
        }
        for document in documents {
            self.document(document, out)?;
            if self.interrupted.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    fn document(&self, document: &RawDocument, out: &mut dyn Write) -> Result<(), Problem> {
        match self.form {
            Form::Lines => writeln!(out, "{}", notation::json(document))?,
            Form::Expanded => {
                writeln!(out, "{{")?;
                for (at, (name, value)) in document.iter().flatten().enumerate() {
                    let name = notation::field(name.as_str());
                    let before = name.chars().count() + 4;
                    let comma = if at == 0 { "" } else { ",\n" };
                    write!(out, "{comma}  {name}: {}", notation::in_lines(value, 2, before))?;
                }
                writeln!(out, "\n}}")?;
            }
            Form::Table => writeln!(out, "{}", notation::in_lines(RawBsonRef::Document(document), 0, 0))?,
        }
        Ok(())
    }

    fn value(&self, value: RawBsonRef<'_>, out: &mut dyn Write) -> Result<(), Problem> {
        match (self.form, value) {
            (Form::Lines, value) => {
                let json = notation::json(&rawdoc! { "": value });
                let json = json.strip_prefix("{\"\":").and_then(|json| json.strip_suffix('}'));
                writeln!(out, "{}", json.unwrap_or_default())?;
            }
            (_, RawBsonRef::String(text)) => writeln!(out, "{}", printable(text))?,
            (_, RawBsonRef::Int64(number)) => writeln!(out, "{number}")?,
            (_, value) => writeln!(out, "{}", notation::in_lines(value, 0, 0))?,
        }
        Ok(())
    }

    /// The names of the databases, for completion; none if they cannot be had.
    pub(super) fn database_names(&mut self) -> Vec<String> {
        let command = doc! { "listDatabases": 1, "nameOnly": true };
        let Ok(reply) = self.ask(&command, "admin") else { return Vec::new() };
        let names = reply.get_array("databases").into_iter().flatten().flatten();
        let name = |value: RawBsonRef<'_>| Some(value.as_document()?.get_str("name").ok()?.to_owned());
        names.filter_map(name).collect()
    }

    /// The names of the collections, for completion; none if they cannot be had.
    pub(super) fn collection_names(&mut self) -> Vec<String> {
        let Some(plan) = methods::show("collections", &self.database) else { return Vec::new() };
        let found = self.ask(&plan.command, &plan.database).and_then(|reply| self.everything(&reply));
        let all = found.unwrap_or_default();
        all.iter().filter_map(|listed| Some(listed.get_str("name").ok()?.to_owned())).collect()
    }

    /// Whether the names can be asked for without connecting first.
    pub(super) fn is_connected(&self) -> bool {
        self.backend.is_connected()
    }

    /// What the commands go to.
    pub(super) fn place(&self) -> String {
        self.backend.name()
    }
}

/// The columns of the terminal; without one there is room for everything.
fn columns() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => usize::MAX,
    }
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The same, of several lines.
fn lines(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

fn number(document: &RawDocument, field: &str) -> Option<f64> {
    match document.get(field).ok()?? {
        RawBsonRef::Int32(n) => Some(f64::from(n)),
        RawBsonRef::Int64(n) => Some(n as f64),
        RawBsonRef::Double(n) => Some(n),
        _ => None,
    }
}

/// The error that a document is: of a reply, or of a part of it.
fn error_in(document: &RawDocument) -> Problem {
    let code = document.get_i32("code").unwrap_or_default();
    let known = || ErrorCode::ALL.iter().find(|known| known.number() == code).map(|known| known.name());
    let name = document.get_str("codeName").ok().or_else(known).unwrap_or("unknown").to_owned();
    let message = document.get_str("errmsg").unwrap_or("the server gives no reason");
    let hint = match needs_user(document) {
        true => ": log in with db.auth(\"USER\", passwordPrompt()), or start with --user USER",
        false => "",
    };
    // The terminal shall not take what is in it for orders.
    Problem::Server { code, name: printable(&name), message: lines(message) + hint }
}

/// The first error of a write whose reply is none.
fn write_error(reply: &RawDocument) -> Option<Problem> {
    if let Ok(errors) = reply.get_array("writeErrors")
        && let Some(Ok(RawBsonRef::Document(error))) = errors.into_iter().next()
    {
        return Some(error_in(error));
    }
    reply.get_document("writeConcernError").ok().map(error_in)
}

/// What a write did, in the words of drivers.
fn written(reply: &RawDocument, write: &Written) -> Document {
    let n = number(reply, "n").unwrap_or_default() as i64;
    let count = |n: i64| i32::try_from(n).map_or(Bson::Int64(n), Bson::Int32);
    match write {
        Written::InsertedOne(id) => doc! { "acknowledged": true, "insertedId": id.clone() },
        Written::InsertedMany(ids) => {
            let failed: Vec<i32> = reply
                .get_array("writeErrors")
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|error| error.as_document()?.get_i32("index").ok())
                .collect();
            let inserted = ids.iter().enumerate().filter(|(at, _)| !failed.contains(&(*at as i32)));
            let inserted: Vec<Bson> = inserted.map(|(_, id)| id.clone()).take(n.max(0) as usize).collect();
            doc! { "acknowledged": true, "insertedCount": count(n), "insertedIds": inserted }
        }
        Written::Deleted => doc! { "acknowledged": true, "deletedCount": count(n) },
        Written::Updated => {
            let upserted = reply.get_array("upserted").ok().and_then(|all| {
                let first = all.into_iter().next()?.ok()?;
                Bson::try_from(first.as_document()?.get("_id").ok()??).ok()
            });
            let modified = number(reply, "nModified").unwrap_or_default() as i64;
            let matched = n - i64::from(upserted.is_some());
            let mut done = doc! {
                "acknowledged": true, "matchedCount": count(matched), "modifiedCount": count(modified),
                "upsertedCount": i32::from(upserted.is_some()),
            };
            done.extend(upserted.map(|id| ("upsertedId".to_owned(), id)));
            done
        }
    }
}

/// A reply without what every reply has.
fn without_envelope(reply: &RawDocument) -> RawDocumentBuf {
    let mut shown = RawDocumentBuf::new();
    for (name, value) in reply.iter().flatten() {
        if !matches!(name.as_str(), "ok" | "$clusterTime" | "operationTime") {
            shown.append(name, value);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(dir: &std::path::Path, form: Form, interactive: bool) -> Runner {
        let backend = Backend::open(dir, Default::default()).unwrap();
        Runner::new(backend, Arc::default(), Arc::default(), "shop".to_owned(), form, interactive)
    }

    fn run(runner: &mut Runner, text: &str) -> String {
        let mut out = Vec::new();
        let done = runner.run_all(text, &|| Err("there is no terminal".to_owned()), &mut out);
        let mut out = String::from_utf8(out).unwrap();
        if let Err(problem) = done {
            out.push_str(&problem.to_string());
        }
        out
    }

    #[test]
    fn a_directory_is_worked_on_without_a_server() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = runner(dir.path(), Form::Table, false);
        assert_eq!(
            run(
                &mut shell,
                "db.films.insertMany([{_id: 1, title: 'Alien', year: 1979}, {_id: 2, title: 'Heat', year: 1995}])"
            ),
            "{ acknowledged: true, insertedCount: 2, insertedIds: [1, 2] }\n"
        );
        assert_eq!(
            run(&mut shell, "db.films.find({year: {$gt: 1970}}).sort({year: -1})"),
            "_id  title  year\n---  -----  ----\n  2  Heat   1995\n  1  Alien  1979\n"
        );
        assert_eq!(run(&mut shell, "db.films.countDocuments({year: {$lt: 1990}})"), "1\n");
        assert_eq!(run(&mut shell, "db.films.distinct('title')"), "[\"Alien\", \"Heat\"]\n");
        assert_eq!(
            run(&mut shell, "db.films.updateOne({_id: 1}, {$set: {cast: {lead: 'S. Weaver'}}})"),
            "{ acknowledged: true, matchedCount: 1, modifiedCount: 1, upsertedCount: 0 }\n"
        );
        assert_eq!(
            run(&mut shell, "db.films.findOne({_id: 1}, {cast: 1})"),
            "{ _id: 1, cast: { lead: \"S. Weaver\" } }\n"
        );
        let again = run(&mut shell, "db.films.insertOne({_id: 1})");
        assert!(again.starts_with("error 11000 (DuplicateKey): E11000 duplicate key"), "{again}");
        assert_eq!(run(&mut shell, "show collections; db.getName(); db.films"), "films\nshop\nshop.films\n");
        assert!(run(&mut shell, "db.films.createIndex({year: 1})").contains("numIndexesAfter: 2"));
        let plan = run(&mut shell, "db.films.find({year: 1995}).explain()");
        assert!(plan.contains("stage: \"IXSCAN\"") && plan.contains("indexName: \"year_1\""), "{plan}");
        assert_eq!(
            run(&mut shell, "db.films.findOneAndDelete({_id: 2}).x()"),
            "there is nothing that x could be called on"
        );
        assert_eq!(run(&mut shell, "db.films.drop()"), "{ nIndexesWas: 2, ns: \"shop.films\" }\n");
        let error = run(&mut shell, "db.films.find({\n  a: 1 b: 2})");
        assert_eq!(error, "expected , or } and found b\n    a: 1 b: 2})\n         ^");
        shell.close().unwrap();
        let mut shell = runner(dir.path(), Form::Lines, false);
        assert_eq!(run(&mut shell, "db.films.countDocuments()"), "0\n");
        assert_eq!(run(&mut shell, "db.auth('a', 'b')"), "a directory has no users to log in as");
    }

    #[test]
    fn it_shows_the_next_page_and_scripts_get_all_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = runner(dir.path(), Form::Lines, true);
        let documents: Vec<String> = (0..50).map(|n| format!("{{_id: {n}}}")).collect();
        run(&mut shell, &format!("db.n.insertMany([{}])", documents.join(",")));
        let first = run(&mut shell, "db.n.find()");
        assert_eq!(first.lines().count(), 21);
        assert!(first.ends_with("{\"_id\":19}\ntype \"it\" for more\n"), "{first}");
        assert!(run(&mut shell, "it").starts_with("{\"_id\":20}\n"));
        let last = run(&mut shell, "it");
        assert!(last.ends_with("{\"_id\":49}\n") && last.lines().count() == 10, "{last}");
        assert_eq!(run(&mut shell, "it"), "there are no more documents\n");
        assert_eq!(run(&mut shell, "db.n.find({_id: 99})"), "no documents\n");
        assert_eq!(run(&mut shell, "db.n.aggregate([{$match: {_id: {$gte: 45}}}])").lines().count(), 5);
        assert_eq!(run(&mut shell, "db.n.find().itcount()"), "50\n");
        shell.close().unwrap();
        let mut shell = runner(dir.path(), Form::Lines, false);
        assert_eq!(run(&mut shell, "db.n.find().batchSize(7)").lines().count(), 50);
        shell.close().unwrap();
    }

    #[test]
    fn nothing_that_is_shown_is_an_order_to_the_terminal() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = runner(dir.path(), Form::Lines, false);
        run(&mut shell, "db.n.insertOne({_id: 1, t: '\\u009b2J\\u007f\\u001b', c: Code('\\u009b')})");
        for form in [Form::Lines, Form::Table, Form::Expanded] {
            shell.form = form;
            for statement in
                ["db.n.find()", "db.n.distinct('t')", "db.n.x('\u{9b}')", "db.runCommand({'\u{9b}': 1})"]
            {
                let shown = run(&mut shell, statement);
                let bad = shown.chars().find(|c| c.is_control() && *c != '\n');
                assert_eq!(bad, None, "{form:?} {statement}: {shown:?}");
            }
        }
        shell.form = Form::Lines;
        assert!(run(&mut shell, "db.n.find()").contains("\"\\u009b2J\\u007f\\u001b\""));
        shell.close().unwrap();
    }

    #[test]
    fn the_cursor_of_a_result_that_nobody_reads_any_more_is_closed() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0 = self.0.checked_sub(1).ok_or(std::io::ErrorKind::BrokenPipe)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let mut shell = runner(dir.path(), Form::Lines, false);
        let documents: Vec<String> = (0..50).map(|n| format!("{{_id: {n}}}")).collect();
        run(&mut shell, &format!("db.n.insertMany([{}])", documents.join(",")));
        let find = "db.n.find().batchSize(7)";
        let done = shell.run_all(find, &|| Err(String::new()), &mut Full(0));
        assert!(matches!(done, Err(Problem::Closed)), "{done:?}");
        shell.forget_cursor();
        let status = shell.ask(&doc! { "serverStatus": 1 }, "admin").unwrap();
        let cursors = status.get_document("metrics").unwrap().get_document("cursor").unwrap();
        assert_eq!(number(cursors.get_document("open").unwrap(), "total"), Some(0.0));
        shell.close().unwrap();
    }

    #[test]
    fn a_running_command_is_stopped_and_the_next_one_runs() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = runner(dir.path(), Form::Lines, false);
        let documents: Vec<String> = (0..400).map(|n| format!("{{_id: {n}}}")).collect();
        run(&mut shell, &format!("db.n.insertMany([{}])", documents.join(",")));
        let stop = Arc::clone(&shell.stop);
        let stopper = std::thread::spawn(move || {
            while !stop.stop() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            // It may have been told before it began.
            for _ in 0..200 {
                std::thread::sleep(std::time::Duration::from_millis(20));
                stop.stop();
            }
        });
        let endless = "db.n.aggregate([{$lookup: {from: 'n', pipeline: [{$lookup: {from: 'n', pipeline: [], as: 'b'}}], as: 'a'}}, {$unwind: '$a'}, {$unwind: '$a.b'}, {$count: 'n'}])";
        let error = run(&mut shell, endless);
        assert!(error.starts_with("error 11601 (Interrupted)"), "{error}");
        stopper.join().unwrap();
        assert_eq!(run(&mut shell, "db.n.countDocuments()"), "400\n");
        shell.close().unwrap();
    }
}
