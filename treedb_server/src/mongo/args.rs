//! Reading a command's arguments, with MongoDB's errors for invalid ones.

use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};
use treedb_query::doc::Value;
use treedb_query::query::ErrorCode;

use super::error::CommandError;
use super::ignored_options::{is_ignored, is_ignored_by_every_command};
use super::protocol_code::ProtocolCode;

type Result<T> = std::result::Result<T, CommandError>;

/// Options that are read for every command before it runs: session, transaction, read concern, time limit, version
/// of the interface.
const READ_FOR_EVERY_COMMAND: &[&str] = &[
    "$db",
    "apiDeprecationErrors",
    "apiStrict",
    "apiVersion",
    "autocommit",
    "lsid",
    "maxTimeMS",
    "readConcern",
    "startTransaction",
    "txnNumber",
];

/// Options that only the members of a sharded cluster send each other.
const CLUSTER_INTERNAL: &[&str] = &[
    "$audit",
    "$client",
    "$configServerState",
    "$configTime",
    "$oplogQueryData",
    "$queryOptions",
    "$replData",
    "$topologyTime",
    "allowImplicitCollectionCreation",
    "clientOperationKey",
    "databaseVersion",
    "mayBypassWriteBlocking",
    "rawData",
    "recoveryToken",
    "shardVersion",
];

/// One argument of a command, or of one of its statements.
#[derive(Clone, Copy)]
pub(crate) struct Arg<'a> {
    owner: &'a str,
    /// Its name.
    pub(crate) name: &'a str,
    value: RawBsonRef<'a>,
}

/// The arguments in `document`; `owner` names it in messages (`find`, `update.updates`).
pub(crate) fn args<'a>(owner: &'a str, document: &'a RawDocument) -> impl Iterator<Item = Result<Arg<'a>>> {
    document.iter().map(move |element| {
        let (name, value) = element?;
        Ok(Arg { owner, name: name.as_str(), value })
    })
}

impl<'a> Arg<'a> {
    /// The argument `name` of `owner`.
    pub(crate) fn new(owner: &'a str, name: &'a str, value: RawBsonRef<'a>) -> Self {
        Arg { owner, name, value }
    }

    /// The argument, of any type.
    pub(crate) fn value(&self) -> RawBsonRef<'a> {
        self.value
    }

    /// True if the argument is null.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value, RawBsonRef::Null | RawBsonRef::Undefined)
    }

    /// A string.
    pub(crate) fn str(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.wrong_type("string"))
    }

    /// A document.
    pub(crate) fn document(&self) -> Result<&'a RawDocument> {
        self.value.as_document().ok_or_else(|| self.wrong_type("object"))
    }

    /// An owned document; `None` if it is null or empty.
    pub(crate) fn some_document(&self) -> Result<Option<RawDocumentBuf>> {
        if self.is_null() {
            return Ok(None);
        }
        let document = self.document()?;
        Ok(document.iter().next().is_some().then(|| document.to_owned()))
    }

    /// An array.
    pub(crate) fn array(&self) -> Result<&'a RawArray> {
        self.value.as_array().ok_or_else(|| self.wrong_type("array"))
    }

    /// An array of documents.
    pub(crate) fn documents(&self) -> Result<Vec<RawDocumentBuf>> {
        self.array()?
            .into_iter()
            .map(|element| match element? {
                RawBsonRef::Document(document) => Ok(document.to_owned()),
                _ => Err(self.wrong_type("object")),
            })
            .collect()
    }

    /// A boolean; numbers are true if they are not zero.
    pub(crate) fn bool(&self) -> Result<bool> {
        truth(self.value).ok_or_else(|| self.wrong_type("[bool, long, int, decimal, double]"))
    }

    /// An integer; fractions are truncated, as in MongoDB.
    pub(crate) fn integer(&self) -> Result<i64> {
        match self.value {
            RawBsonRef::Int32(value) => Ok(value.into()),
            RawBsonRef::Int64(value) => Ok(value),
            other => match number(other) {
                // `as` saturates, and turns NaN into zero.
                Some(number) => Ok(number as i64),
                None => Err(self.wrong_type("[long, int, decimal, double]")),
            },
        }
    }

    /// A non-negative integer.
    pub(crate) fn count(&self) -> Result<u64> {
        let number = self.integer()?;
        u64::try_from(number).map_err(|_| {
            CommandError::new(
                ProtocolCode::Location51024,
                format!("BSON field '{}' value must be >= 0, actual value '{number}'", self.path()),
            )
        })
    }

    /// For an option that the command does not read itself: accepted if it is read for every command or listed in
    /// [`ignored_options`](super::ignored_options).
    ///
    /// # Errors
    /// `NotImplemented` for options of sharded clusters, `InvalidOptions` for a `writeConcern`, 40415 for others.
    pub(crate) fn ignored_or_unknown(&self) -> Result<()> {
        match self.name {
            name if READ_FOR_EVERY_COMMAND.contains(&name) => Ok(()),
            name if is_ignored_by_every_command(name) || is_ignored(self.owner, name) => Ok(()),
            name if CLUSTER_INTERNAL.contains(&name) => self.unsupported(),
            "writeConcern" => Err(CommandError::new(
                ErrorCode::InvalidOptions,
                format!("Command {} does not support writeConcern", self.owner),
            )),
            _ => Err(self.unknown()),
        }
    }

    /// For an option of a part of a command, such as a statement: accepted if it is listed in
    /// [`ignored_options`](super::ignored_options).
    ///
    /// # Errors
    /// 40415 if it is not.
    pub(crate) fn nested_ignored_or_unknown(&self) -> Result<()> {
        if self.is_ignored() { Ok(()) } else { Err(self.unknown()) }
    }

    /// True if it is listed as an ignored option of its owner.
    pub(crate) fn is_ignored(&self) -> bool {
        is_ignored(self.owner, self.name)
    }

    fn unknown(&self) -> CommandError {
        CommandError::new(
            ErrorCode::Location40415,
            format!("BSON field '{}' is an unknown field.", self.path()),
        )
    }

    /// For an unsupported option of MongoDB: accepted only if it is null, false or empty.
    ///
    /// # Errors
    /// `NotImplemented` for any other value.
    pub(crate) fn unsupported(&self) -> Result<()> {
        let asks = match self.value {
            RawBsonRef::Null | RawBsonRef::Undefined | RawBsonRef::Boolean(false) => false,
            RawBsonRef::Document(document) => document.iter().next().is_some(),
            RawBsonRef::Array(array) => array.into_iter().next().is_some(),
            _ => true,
        };
        if asks {
            return Err(CommandError::not_implemented(format!("'{}' is not supported", self.path())));
        }
        Ok(())
    }

    /// `command.argument`, as messages name it.
    pub(crate) fn path(&self) -> String {
        format!("{}.{}", self.owner, self.name)
    }

    fn wrong_type(&self, expected: &str) -> CommandError {
        let noun = if expected.starts_with('[') { "types" } else { "type" };
        CommandError::new(
            ErrorCode::TypeMismatch,
            format!(
                "BSON field '{}' is the wrong type '{}', expected {noun} '{expected}'",
                self.path(),
                type_name(self.value),
            ),
        )
    }
}

/// Whether a value is true: a boolean, a number that is not zero; `None` for other types.
pub(crate) fn truth(value: RawBsonRef<'_>) -> Option<bool> {
    match value {
        RawBsonRef::Boolean(value) => Some(value),
        RawBsonRef::Null | RawBsonRef::Undefined => Some(false),
        other => number(other).map(|number| number != 0.0),
    }
}

/// The value of a number of any type.
pub(crate) fn number(value: RawBsonRef<'_>) -> Option<f64> {
    match value {
        RawBsonRef::Int32(value) => Some(value.into()),
        RawBsonRef::Int64(value) => Some(value as f64),
        RawBsonRef::Double(value) => Some(value),
        RawBsonRef::Decimal128(value) => value.to_string().parse().ok(),
        _ => None,
    }
}

/// MongoDB's name of a value's type.
pub(crate) fn type_name(value: RawBsonRef<'_>) -> &'static str {
    Value::with(value, |value| value.type_name())
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn one<T>(document: &RawDocument, read: impl Fn(Arg<'_>) -> Result<T>) -> Result<T> {
        read(args("find", document).next().unwrap().unwrap())
    }

    #[test]
    fn numbers_of_every_kind_are_numbers() {
        for document in [rawdoc! { "n": 3 }, rawdoc! { "n": 3_i64 }, rawdoc! { "n": 3.7 }] {
            assert_eq!(one(&document, |arg| arg.integer()).unwrap(), 3);
            assert!(one(&document, |arg| arg.bool()).unwrap());
        }
        let decimal = rawdoc! { "n": "3.5".parse::<bson::Decimal128>().unwrap() };
        assert_eq!(one(&decimal, |arg| arg.integer()).unwrap(), 3);
        assert_eq!(one(&rawdoc! { "n": -1 }, |arg| arg.count()).unwrap_err().code, 51_024);
    }

    #[test]
    fn a_wrong_type_names_the_field_the_type_and_what_was_expected() {
        let error = one(&rawdoc! { "limit": "x" }, |arg| arg.integer()).unwrap_err();
        assert_eq!(error.code, 14);
        assert_eq!(
            error.message,
            "BSON field 'find.limit' is the wrong type 'string', expected types '[long, int, decimal, double]'"
        );
    }

    #[test]
    fn an_unknown_option_is_refused_and_one_of_any_command_is_not() {
        let code = |document: &RawDocument| {
            one(document, |arg| arg.ignored_or_unknown()).map_err(|error| error.code)
        };
        assert_eq!(code(&rawdoc! { "limitt": 1 }), Err(40_415));
        assert_eq!(code(&rawdoc! { "lsid": {} }), Ok(()));
        assert_eq!(code(&rawdoc! { "comment": 1 }), Ok(()));
        assert_eq!(code(&rawdoc! { "oplogReplay": true }), Ok(()));
        assert_eq!(code(&rawdoc! { "fields": {} }), Err(40_415));
        assert_eq!(code(&rawdoc! { "shardVersion": [1] }), Err(238));
        assert_eq!(code(&rawdoc! { "writeConcern": {} }), Err(72));
        assert!(one(&rawdoc! { "collation": {} }, |arg| arg.unsupported()).is_ok());
        assert_eq!(one(&rawdoc! { "tailable": true }, |arg| arg.unsupported()).unwrap_err().code, 238);
    }

    #[test]
    fn a_statement_does_not_take_the_options_of_its_command() {
        let nested = |document: &RawDocument| one(document, |arg| arg.nested_ignored_or_unknown());
        assert_eq!(nested(&rawdoc! { "comment": 1 }).unwrap_err().code, 40_415);
        assert!(nested(&rawdoc! { "readOnce": true }).is_ok());
    }
}
