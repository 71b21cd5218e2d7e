//! Failures on request, by which drivers test how they retry: `configureFailPoint`, with `--enable-test-commands` only.
//!
//! | name | |
//! |---|---|
//! | `failCommand` | commands fail with an error, close their connection, wait before they run, or report a write concern error after they ran |
//! | `onPrimaryTransactionalWrite` | a retryable write fails before it is committed, or closes its connection after it |

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bson::raw::cstr;
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};
use treedb_query::query::ErrorCode;

use super::args::{args, number};
use super::commands::Request;
use super::error::{CommandError, TRANSIENT_TRANSACTION, is_retryable, is_transient};
use super::protocol_code::ProtocolCode;

type Result<T> = std::result::Result<T, CommandError>;

/// The names of the failpoints that there are.
const NAMES: [&str; 2] = ["failCommand", "onPrimaryTransactionalWrite"];

/// How often a failpoint is entered.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Always,
    /// So many times more.
    Times(i64),
    /// Always, but for so many times more.
    Skip(i64),
}

#[derive(Debug, Clone)]
struct FailPoint {
    mode: Mode,
    data: RawDocumentBuf,
    entered: i64,
}

/// The failpoints of a server.
#[derive(Debug, Default)]
pub(crate) struct FailPoints(Mutex<HashMap<&'static str, FailPoint>>);

/// What happens to a command.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    wait: Duration,
    close_before: bool,
    close_after: bool,
    error: Option<i32>,
    concern: Option<RawDocumentBuf>,
    labels: Option<Vec<String>>,
}

impl FailPoints {
    /// Sets a failpoint, and returns how often it has been entered so far.
    ///
    /// # Errors
    /// `FailPointSetFailed` for one that there is not, `BadValue` and others for its mode and data.
    pub(crate) fn configure(
        &self,
        name: &str,
        mode: bson::RawBsonRef<'_>,
        data: Option<&RawDocument>,
    ) -> Result<i64> {
        let Some(name) = NAMES.into_iter().find(|known| *known == name) else {
            return Err(CommandError::new(
                ProtocolCode::FailPointSetFailed,
                format!("{name} not found: the failpoints are {}", NAMES.join(" and ")),
            ));
        };
        let mode = read_mode(mode)?;
        let data = data.map(RawDocument::to_owned).unwrap_or_default();
        check(name, &data)?;
        let mut points = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match mode {
            None => points.remove(name),
            Some(mode) => points.insert(name, FailPoint { mode, data, entered: 0 }),
        };
        Ok(before.map_or(0, |point| point.entered))
    }

    /// What happens to this command.
    pub(crate) fn enter(&self, request: &Request<'_>) -> Failure {
        let mut points = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut failure = Failure::default();
        if let Some(point) = points.get_mut("failCommand")
            && concerns(&point.data, request)
            && point.is_entered()
        {
            failure = Failure::of_command(&point.data);
        }
        if is_retryable_write(request)
            && let Some(point) = points.get_mut("onPrimaryTransactionalWrite")
            && point.is_entered()
        {
            let code = point.data.get("failBeforeCommitExceptionCode").ok().flatten().and_then(number);
            failure.error = failure.error.or(code.map(|code| code as i32));
            failure.close_after |= is_true(&point.data, "closeConnection").unwrap_or(true);
        }
        failure
    }
}

impl FailPoint {
    /// Counts; true if it is entered this time.
    fn is_entered(&mut self) -> bool {
        let entered = match &mut self.mode {
            Mode::Always => true,
            Mode::Times(left) | Mode::Skip(left) if *left > 0 => {
                *left -= 1;
                matches!(self.mode, Mode::Times(_))
            }
            Mode::Times(_) => false,
            Mode::Skip(_) => true,
        };
        self.entered += i64::from(entered);
        entered
    }
}

/// `None` is off.
fn read_mode(mode: bson::RawBsonRef<'_>) -> Result<Option<Mode>> {
    let bad = |message: String| Err(CommandError::new(ErrorCode::BadValue, message));
    if let Some(word) = mode.as_str() {
        return match word {
            "off" => Ok(None),
            "alwaysOn" => Ok(Some(Mode::Always)),
            other => bad(format!("unknown mode: {other}")),
        };
    }
    let Some(document) = mode.as_document() else {
        return Err(CommandError::new(ErrorCode::TypeMismatch, "'mode' must be a string or an object"));
    };
    let mut found = None;
    for arg in args("mode", document) {
        let arg = arg?;
        let count = i64::try_from(arg.count()?).unwrap_or(i64::MAX);
        found = match arg.name {
            "times" => Some(Mode::Times(count)),
            "skip" => Some(Mode::Skip(count)),
            other => return bad(format!("mode '{other}' is not supported: times or skip")),
        };
    }
    match found {
        Some(mode) => Ok(Some(mode)),
        None => bad("'mode' is empty: times or skip".to_owned()),
    }
}

/// Refuses data that would have no effect.
fn check(name: &str, data: &RawDocument) -> Result<()> {
    for arg in args(name, data) {
        let arg = arg?;
        match (name, arg.name) {
            ("failCommand", "failCommands") => {
                for command in arg.array()? {
                    if command?.as_str().is_none() {
                        return Err(CommandError::new(
                            ErrorCode::TypeMismatch,
                            "'failCommands' has the names of commands",
                        ));
                    }
                }
            }
            ("failCommand", "errorCode") | (_, "failBeforeCommitExceptionCode") => drop(arg.integer()?),
            ("failCommand", "blockTimeMS") => drop(arg.count()?),
            ("failCommand", "blockConnection" | "failInternalCommands") | (_, "closeConnection") => {
                arg.bool()?;
            }
            ("failCommand", "writeConcernError") => drop(arg.document()?),
            ("failCommand", "errorLabels") => drop(arg.array()?),
            ("failCommand", "appName" | "namespace") => drop(arg.str()?),
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    Ok(())
}

fn is_true(data: &RawDocument, name: &str) -> Option<bool> {
    data.get(name).ok().flatten().and_then(super::args::truth)
}

/// Whether `failCommand` with this data is about the command.
fn concerns(data: &RawDocument, request: &Request<'_>) -> bool {
    let name = request.command.name;
    if name == "configureFailPoint" {
        return false;
    }
    let sent =
        request.body().iter().next().and_then(|field| field.ok()).map_or("", |(name, _)| name.as_str());
    let named = data.get_array("failCommands").is_ok_and(|names| {
        names
            .into_iter()
            .flatten()
            .any(|listed| listed.as_str().is_some_and(|listed| listed == name || listed == sent))
    });
    let is =
        |field: &str, actual: Option<&str>| data.get_str(field).map_or(true, |wanted| Some(wanted) == actual);
    let namespace = request.namespace().ok();
    named
        && is("appName", request.session.app_name())
        && is("namespace", namespace.as_ref().map(|namespace| namespace.as_str()))
}

/// A write with a number, outside of a transaction.
fn is_retryable_write(request: &Request<'_>) -> bool {
    let body = request.body();
    let has = |name: &str| body.get(name).is_ok_and(|value| value.is_some());
    let writes =
        matches!(request.command.name, "insert" | "update" | "delete" | "findAndModify" | "bulkWrite");
    writes && has("txnNumber") && !has("autocommit")
}

impl Failure {
    fn of_command(data: &RawDocument) -> Failure {
        let wait = match is_true(data, "blockConnection") {
            Some(true) => data.get("blockTimeMS").ok().flatten().and_then(number).unwrap_or(0.0),
            _ => 0.0,
        };
        let labels = data.get_array("errorLabels").ok();
        Failure {
            wait: Duration::from_millis(wait as u64),
            close_before: is_true(data, "closeConnection") == Some(true),
            close_after: false,
            error: data.get("errorCode").ok().flatten().and_then(number).map(|code| code as i32),
            concern: data.get_document("writeConcernError").ok().map(RawDocument::to_owned),
            labels: labels.map(|labels| {
                labels.into_iter().flatten().filter_map(|label| label.as_str().map(str::to_owned)).collect()
            }),
        }
    }

    /// Runs the command as far as the failure lets it.
    pub(crate) fn run(
        self,
        request: &Request<'_>,
        run: impl FnOnce() -> Result<RawDocumentBuf>,
    ) -> Result<RawDocumentBuf> {
        if !self.wait.is_zero() {
            // A quick command runs on a thread of the runtime, whose other tasks go elsewhere meanwhile.
            tokio::task::block_in_place(|| std::thread::sleep(self.wait));
        }
        let body = request.body();
        let has_number = body.get("txnNumber").is_ok_and(|number| number.is_some());
        let in_transaction = has_number && body.get_bool("autocommit").is_ok_and(|commits| !commits);
        let ends = matches!(request.command.name, "commitTransaction" | "abortTransaction");
        // What only the write concern says does not make a transaction transient.
        let labels = |code: i32, is_concern: bool| match &self.labels {
            Some(labels) => labels.clone(),
            None if in_transaction && !is_concern && is_transient(code, ends) => {
                vec![TRANSIENT_TRANSACTION.to_owned()]
            }
            None if is_retryable(code) && (is_retryable_write(request) || ends && has_number) => {
                vec!["RetryableWriteError".to_owned()]
            }
            None => Vec::new(),
        };
        if self.close_before {
            request.session.hang_up();
            return Err(CommandError::new(
                ProtocolCode::SocketException,
                "closed by the failpoint failCommand",
            ));
        }
        if let Some(code) = self.error {
            let message = "Failing command via 'failCommand' failpoint";
            let error = CommandError::coded(code, message);
            return Err(match labels(code, false) {
                none if none.is_empty() && self.labels.is_none() => error,
                labels => error.with_labels(labels),
            });
        }
        let mut reply = run()?;
        if self.close_after {
            request.session.hang_up();
        }
        if let Some(concern) = self.concern {
            let code = concern.get("code").ok().flatten().and_then(number).unwrap_or(0.0) as i32;
            let mut listed = RawArrayBuf::new();
            labels(code, true).into_iter().for_each(|label| listed.push(label));
            reply.append(cstr!("writeConcernError"), concern);
            if (&*listed as &bson::RawArray).into_iter().next().is_some() {
                reply.append(cstr!("errorLabels"), listed);
            }
        }
        Ok(reply)
    }
}

/// The reply of `configureFailPoint`.
pub(crate) fn reply(count: i64) -> RawDocumentBuf {
    rawdoc! { "count": count }
}
