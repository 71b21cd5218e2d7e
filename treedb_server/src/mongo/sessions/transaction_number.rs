//! The fields that number a command.

use std::fmt;

use bson::spec::BinarySubtype;
use bson::{Binary, RawBsonRef, RawDocument};
use treedb_query::query::ErrorCode;

use crate::mongo::args::number;
use crate::mongo::error::CommandError;

type Result<T> = std::result::Result<T, CommandError>;

/// The id a client has made up for a session: a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionId([u8; 16]);

impl SessionId {
    /// Reads `{id: UUID}`.
    ///
    /// # Errors
    /// `TypeMismatch` for anything else.
    pub(crate) fn read(value: RawBsonRef<'_>) -> Result<Self> {
        let wrong = || {
            CommandError::new(ErrorCode::TypeMismatch, "a session id is a document {id: UUID} of 16 bytes")
        };
        match value.as_document().ok_or_else(wrong)?.get("id")? {
            Some(RawBsonRef::Binary(id)) => id.bytes.try_into().map(SessionId).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }

    /// The id as a UUID.
    pub(super) fn binary(self) -> Binary {
        Binary { subtype: BinarySubtype::Uuid, bytes: self.0.to_vec() }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        bson::Uuid::from_bytes(self.0).fmt(f)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a number is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A write that may be sent again.
    Retryable,
    /// The first command of a transaction.
    Begin,
    /// A later one.
    Continue,
}

/// `lsid`, `txnNumber`, `autocommit` and `startTransaction` of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransactionNumber {
    pub(crate) session: SessionId,
    pub(crate) number: i64,
    pub(crate) kind: Kind,
}

impl TransactionNumber {
    /// Reads them; `None` for a command without a number.
    ///
    /// # Errors
    /// `InvalidOptions` for fields that do not go together.
    pub(crate) fn read(body: &RawDocument) -> Result<Option<Self>> {
        let (mut session, mut txn_number, mut autocommit, mut start) = (None, None, None, None);
        for element in body {
            let (name, value) = element?;
            match name.as_str() {
                "lsid" => session = Some(value),
                "txnNumber" => txn_number = Some(value),
                "autocommit" => autocommit = Some(value),
                "startTransaction" => start = Some(value),
                _ => {}
            }
        }
        let invalid = |message: &str| Err(CommandError::new(ErrorCode::InvalidOptions, message));
        let Some(txn_number) = txn_number else {
            return match (autocommit, start) {
                (None, None) => Ok(None),
                _ => invalid("'autocommit' and 'startTransaction' need a 'txnNumber'"),
            };
        };
        let Some(session) = session else {
            return invalid("Transaction number requires a session ID to also be specified");
        };
        let txn_number = match txn_number {
            RawBsonRef::Int64(number) => number,
            other => match number(other) {
                Some(number) => number as i64,
                None => {
                    return Err(CommandError::new(
                        ErrorCode::TypeMismatch,
                        "BSON field 'txnNumber' is the wrong type, expected type 'long'",
                    ));
                }
            },
        };
        if txn_number < 0 {
            return invalid("Transaction number cannot be negative");
        }
        let kind = match (autocommit, start) {
            (None, None) => Kind::Retryable,
            (Some(RawBsonRef::Boolean(false)), None) => Kind::Continue,
            (Some(RawBsonRef::Boolean(false)), Some(RawBsonRef::Boolean(true))) => Kind::Begin,
            (Some(RawBsonRef::Boolean(false)), Some(_)) => {
                return invalid("Specifying startTransaction=false is not allowed.");
            }
            (Some(_), _) => return invalid("Specifying autocommit=true is not allowed."),
            (None, Some(_)) => return invalid("'startTransaction' needs 'autocommit': false"),
        };
        Ok(Some(TransactionNumber { session: SessionId::read(session)?, number: txn_number, kind }))
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_number_is_a_retryable_write_unless_the_fields_of_a_transaction_come_with_it() {
        let id = || Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] };
        let lsid = || rawdoc! { "id": id() };
        let kind = |body: &RawDocument| TransactionNumber::read(body).map(|read| read.map(|read| read.kind));
        assert_eq!(kind(&rawdoc! { "find": "c", "lsid": lsid() }).unwrap(), None);
        for (body, expected) in [
            (rawdoc! { "lsid": lsid(), "txnNumber": 1_i64 }, Kind::Retryable),
            (rawdoc! { "lsid": lsid(), "txnNumber": 1_i64, "autocommit": false }, Kind::Continue),
            (
                rawdoc! { "lsid": lsid(), "txnNumber": 1_i64, "autocommit": false, "startTransaction": true },
                Kind::Begin,
            ),
        ] {
            assert_eq!(kind(&body).unwrap(), Some(expected), "{body:?}");
        }
        for (body, code) in [
            (rawdoc! { "txnNumber": 1_i64 }, 72),
            (rawdoc! { "lsid": lsid(), "txnNumber": -1_i64 }, 72),
            (rawdoc! { "lsid": lsid(), "txnNumber": "1" }, 14),
            (rawdoc! { "lsid": lsid(), "autocommit": false }, 72),
            (rawdoc! { "lsid": lsid(), "txnNumber": 1_i64, "autocommit": true }, 72),
            (rawdoc! { "lsid": lsid(), "txnNumber": 1_i64, "startTransaction": true }, 72),
            (
                rawdoc! { "lsid": lsid(), "txnNumber": 1_i64, "autocommit": false, "startTransaction": false },
                72,
            ),
            (rawdoc! { "lsid": { "id": 1 }, "txnNumber": 1_i64 }, 14),
        ] {
            assert_eq!(kind(&body).unwrap_err().code, code, "{body:?}");
        }
    }
}
