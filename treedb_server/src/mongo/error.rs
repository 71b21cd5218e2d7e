//! The error of a command, as sent over the wire.

use std::borrow::Cow;

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_query::query::{DuplicateKey, ErrorCode, QueryError};

use super::protocol_code::ProtocolCode;

/// Number and name of a code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code {
    number: i32,
    name: &'static str,
}

impl From<ErrorCode> for Code {
    fn from(code: ErrorCode) -> Self {
        Code { number: code.number(), name: code.name() }
    }
}

impl From<ProtocolCode> for Code {
    fn from(code: ProtocolCode) -> Self {
        Code { number: code.number(), name: code.name() }
    }
}

/// The errors after which a change stream cannot go on: MongoDB's category `NonResumableChangeStreamError`.
const NON_RESUMABLE_CODES: [ErrorCode; 2] =
    [ErrorCode::ChangeStreamFatalError, ErrorCode::ChangeStreamHistoryLost];

/// The label of errors after which a change stream cannot go on from its last event.
const NON_RESUMABLE: &str = "NonResumableChangeStreamError";

/// The label of errors of a change stream after which it can.
const RESUMABLE: &str = "ResumableChangeStreamError";

/// The codes of errors that are gone when the command is sent again: MongoDB's category `RetriableError`.
const RETRYABLE: [i32; 13] = [
    ProtocolCode::HostUnreachable.number(),
    ProtocolCode::HostNotFound.number(),
    ProtocolCode::NetworkTimeout.number(),
    ErrorCode::ShutdownInProgress.number(),
    ProtocolCode::ReadConcernMajorityNotAvailableYet.number(),
    ProtocolCode::PrimarySteppedDown.number(),
    ProtocolCode::ExceededTimeLimit.number(),
    ProtocolCode::SocketException.number(),
    ProtocolCode::NotWritablePrimary.number(),
    ErrorCode::InterruptedAtShutdown.number(),
    ProtocolCode::InterruptedDueToReplStateChange.number(),
    ProtocolCode::NotPrimaryNoSecondaryOk.number(),
    ProtocolCode::NotPrimaryOrSecondary.number(),
];

/// Whether a command that has failed with this code may succeed when it is sent again.
pub(crate) fn is_retryable(code: i32) -> bool {
    RETRYABLE.contains(&code)
}

/// The codes of errors of a command in a transaction that are gone when the whole transaction is run again.
const TRANSIENT: [i32; 6] = [
    ProtocolCode::LockTimeout.number(),
    ErrorCode::WriteConflict.number(),
    ErrorCode::SnapshotTooOld.number(),
    ErrorCode::SnapshotUnavailable.number(),
    ErrorCode::NoSuchTransaction.number(),
    ProtocolCode::PreparedTransactionInProgress.number(),
];

/// Whether a transaction may succeed when it is run again as a whole after a command of it has failed with this code. The command that `ends`
/// it is sent again by itself after a [retryable](is_retryable) code: it may have been executed.
pub(crate) fn is_transient(code: i32, ends: bool) -> bool {
    TRANSIENT.contains(&code) || !ends && is_retryable(code)
}

/// The label of errors in a transaction after which it may be run again.
pub(crate) const TRANSIENT_TRANSACTION: &str = "TransientTransactionError";

/// An error reply: `{ok: 0, errmsg, code, codeName}`.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// MongoDB's number.
    pub(crate) code: i32,
    /// MongoDB's name for it.
    pub(crate) name: Cow<'static, str>,
    /// The message.
    pub(crate) message: String,
    /// Details of a duplicate key.
    pub(crate) duplicate: Option<Box<DuplicateKey>>,
    /// Why a validator refused a document.
    info: Option<Box<RawDocumentBuf>>,
    /// The transaction may be retried.
    transient: bool,
    /// Labels beside that one.
    labels: Vec<Cow<'static, str>>,
    /// Further fields of the reply.
    fields: Option<Box<RawDocumentBuf>>,
}

impl CommandError {
    /// An error of one of the tables.
    pub(crate) fn new(code: impl Into<Code>, message: impl Into<String>) -> Self {
        let Code { number, name } = code.into();
        let error = Self::of(number, Cow::Borrowed(name), message);
        if NON_RESUMABLE_CODES.iter().any(|code| code.number() == number) {
            return error.with_labels([NON_RESUMABLE]);
        }
        error
    }

    /// The error of a field that is missing, by its whole name: `command.field`.
    pub(crate) fn missing(field: &str) -> Self {
        Self::new(ErrorCode::Location40414, format!("BSON field '{field}' is missing but a required field"))
    }

    fn of(code: i32, name: Cow<'static, str>, message: impl Into<String>) -> Self {
        CommandError {
            code,
            name,
            message: message.into(),
            duplicate: None,
            info: None,
            transient: false,
            labels: Vec::new(),
            fields: None,
        }
    }

    /// An error whose number is known, and its name if a table has it. MongoDB's numbered assertions have no name but `LocationN`.
    pub(crate) fn coded(code: i32, message: impl Into<String>) -> Self {
        let known = ErrorCode::ALL.iter().find(|known| known.number() == code).map(|known| (*known).into());
        let known = known.or_else(|| {
            let known = ProtocolCode::ALL.iter().find(|known| known.number() == code)?;
            Some(Code::from(*known))
        });
        match known {
            Some(known) => Self::new(known, message),
            None => Self::of(code, Cow::Owned(format!("Location{code}")), message),
        }
    }

    /// Keeps only the code.
    pub(crate) fn shorten(&mut self) {
        (self.message, self.duplicate, self.info) = (String::new(), None, None);
    }

    /// True for a conflict with another writer: the command may be retried.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code == ErrorCode::WriteConflict.number()
    }

    /// The error of a command of a transaction, maybe the one that `ends` it: labelled if the transaction may be run again.
    pub(crate) fn of_transaction(self, ends: bool) -> Self {
        CommandError { transient: is_transient(self.code, ends), ..self }
    }

    /// Refuses the databases that transactions cannot use.
    pub(crate) fn refuse_in_transaction(database: &str) -> Result<(), Self> {
        if matches!(database, "config" | "admin" | "local") {
            return Err(Self::new(
                ErrorCode::OperationNotSupportedInTransaction,
                format!("Cannot run command against the '{database}' database in a transaction."),
            ));
        }
        Ok(())
    }

    /// The same, with these labels.
    pub(crate) fn with_labels<L: Into<Cow<'static, str>>>(self, labels: impl IntoIterator<Item = L>) -> Self {
        CommandError { labels: labels.into_iter().map(Into::into).collect(), ..self }
    }

    /// The error of a change stream: a driver resumes it only if it is labelled.
    pub(crate) fn of_change_stream(self) -> Self {
        if is_retryable(self.code) { self.with_labels([RESUMABLE]) } else { self }
    }

    /// The same, with further fields in the reply.
    pub(crate) fn with_fields(self, fields: RawDocumentBuf) -> Self {
        CommandError { fields: Some(Box::new(fields)), ..self }
    }

    /// A `ProtocolError`.
    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ProtocolError, message)
    }

    /// A `NotImplemented`: something MongoDB has and this server does not.
    pub(crate) fn not_implemented(what: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotImplemented, what)
    }

    /// The reply document.
    pub(crate) fn reply(&self) -> RawDocumentBuf {
        let mut reply = rawdoc! {
            "ok": 0.0,
            "errmsg": self.message.as_str(),
            "code": self.code,
            "codeName": &*self.name,
        };
        self.append_more(&mut reply);
        for (name, value) in self.fields.iter().flat_map(|fields| fields.iter()).flatten() {
            reply.append(name, value);
        }
        if self.transient || !self.labels.is_empty() {
            let mut labels = RawArrayBuf::new();
            if self.transient {
                labels.push(TRANSIENT_TRANSACTION);
            }
            self.labels.iter().for_each(|label| labels.push(&**label));
            reply.append(bson::raw::cstr!("errorLabels"), labels);
        }
        reply
    }

    /// The entry of `writeErrors` for statement `index`.
    pub(crate) fn write_error(&self, index: usize) -> RawDocumentBuf {
        let mut entry = rawdoc! {
            "index": i32::try_from(index).unwrap_or(i32::MAX),
            "code": self.code,
        };
        self.append_more(&mut entry);
        entry.append(bson::raw::cstr!("errmsg"), self.message.as_str());
        entry
    }

    fn append_more(&self, to: &mut RawDocumentBuf) {
        if let Some(duplicate) = &self.duplicate {
            to.append(bson::raw::cstr!("keyPattern"), &*duplicate.key_pattern);
            to.append(bson::raw::cstr!("keyValue"), &*duplicate.key_value);
        }
        if let Some(info) = &self.info {
            to.append(bson::raw::cstr!("errInfo"), &***info);
        }
    }
}

impl From<QueryError> for CommandError {
    fn from(error: QueryError) -> Self {
        let mut reply = CommandError::new(error.code, error.message);
        reply.duplicate = error.duplicate;
        reply.info = error.info;
        reply
    }
}

impl From<treedb_collections::Error> for CommandError {
    fn from(error: treedb_collections::Error) -> Self {
        QueryError::from(error).into()
    }
}

impl From<bson::error::Error> for CommandError {
    fn from(error: bson::error::Error) -> Self {
        QueryError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(error: CommandError) -> Vec<String> {
        let reply = bson::Document::try_from(&*error.reply()).unwrap();
        let labels = reply.get_array("errorLabels").cloned().unwrap_or_default();
        labels.iter().map(|label| label.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn errors_of_transactions_say_whether_it_may_be_run_again() {
        for (code, inside, at_the_end) in [
            (112, true, true),
            (24, true, true),
            (267, true, true),
            (239, true, true),
            (246, true, true),
            (251, true, true),
            (11_600, true, false),
            (10_107, true, false),
            (91, true, false),
            (11_000, false, false),
            (50, false, false),
        ] {
            let transient = |ends| !labels(CommandError::coded(code, "").of_transaction(ends)).is_empty();
            assert_eq!((transient(false), transient(true)), (inside, at_the_end), "{code}");
        }
    }

    #[test]
    fn errors_of_change_streams_say_whether_it_can_be_resumed() {
        for code in [ErrorCode::ChangeStreamFatalError, ErrorCode::ChangeStreamHistoryLost] {
            assert_eq!(labels(CommandError::new(code, "")), [NON_RESUMABLE]);
            assert_eq!(labels(QueryError::new(code, "").into()), [NON_RESUMABLE]);
            assert_eq!(labels(CommandError::new(code, "").of_change_stream()), [NON_RESUMABLE]);
        }
        let stopping = || CommandError::new(ErrorCode::InterruptedAtShutdown, "");
        assert_eq!(labels(stopping().of_change_stream()), [RESUMABLE]);
        assert!(labels(stopping()).is_empty());
        assert!(labels(CommandError::new(ErrorCode::BadValue, "").of_change_stream()).is_empty());
    }
}
