//! The fields of a command, read in one pass over its document: all of them in their order, for those who read its arguments, and apart those
//! that any command may have: what it is about, its database, session and transaction, concerns, time limit and version of the interface. Of
//! one of these that occurs twice the first counts.

use bson::{RawBsonRef, RawDocument};

use super::error::CommandError;

/// A field of a command: its name and its value.
pub(crate) type Field<'a> = (&'a str, RawBsonRef<'a>);

/// As many fields of a command are kept at most: others are read where they are, since short ones are shorter than what is kept of them.
pub(crate) const KEPT: usize = 100;

/// The fields of one command that any may have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CommonFields<'a> {
    /// The name of the first field, which is the command's; empty if there is none.
    pub(crate) name: &'a str,
    /// Its value.
    pub(crate) subject: Option<RawBsonRef<'a>>,
    /// `$db`
    pub(crate) database: Option<RawBsonRef<'a>>,
    /// `lsid`
    pub(crate) session: Option<RawBsonRef<'a>>,
    /// `txnNumber`
    pub(crate) txn_number: Option<RawBsonRef<'a>>,
    /// `autocommit`
    pub(crate) autocommit: Option<RawBsonRef<'a>>,
    /// `startTransaction`
    pub(crate) start_transaction: Option<RawBsonRef<'a>>,
    /// `readConcern`
    pub(crate) read_concern: Option<RawBsonRef<'a>>,
    /// `writeConcern`
    pub(crate) write_concern: Option<RawBsonRef<'a>>,
    /// `maxTimeMS`
    pub(crate) max_time: Option<RawBsonRef<'a>>,
    /// `apiVersion`
    pub(crate) api_version: Option<RawBsonRef<'a>>,
    /// `apiStrict`
    pub(crate) api_strict: Option<RawBsonRef<'a>>,
    /// `apiDeprecationErrors`
    pub(crate) api_deprecation_errors: Option<RawBsonRef<'a>>,
}

impl<'a> CommonFields<'a> {
    /// Finds them in a command, whose first [`KEPT`] fields are put into `all`, which is empty.
    ///
    /// # Errors
    /// `InvalidBSON` for a damaged document.
    pub(crate) fn read(command: &'a RawDocument, all: &mut Vec<Field<'a>>) -> Result<Self, CommandError> {
        let mut found = CommonFields::default();
        for (position, field) in command.iter().enumerate() {
            let (name, value) = field?;
            let name = name.as_str();
            if all.len() < KEPT {
                all.push((name, value));
            }
            if position == 0 {
                (found.name, found.subject) = (name, Some(value));
            }
            let place = match name {
                "$db" => &mut found.database,
                "lsid" => &mut found.session,
                "txnNumber" => &mut found.txn_number,
                "autocommit" => &mut found.autocommit,
                "startTransaction" => &mut found.start_transaction,
                "readConcern" => &mut found.read_concern,
                "writeConcern" => &mut found.write_concern,
                "maxTimeMS" => &mut found.max_time,
                "apiVersion" => &mut found.api_version,
                "apiStrict" => &mut found.api_strict,
                "apiDeprecationErrors" => &mut found.api_deprecation_errors,
                _ => continue,
            };
            place.get_or_insert(value);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use bson::raw::cstr;
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    #[test]
    fn the_first_of_each_field_is_found_wherever_it_is() {
        let command = rawdoc! { "find": "films", "filter": { "lsid": 1 }, "$db": "a", "lsid": 2, "lsid": 3 };
        let mut all = Vec::new();
        let found = CommonFields::read(&command, &mut all).unwrap();
        assert_eq!(
            all.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            ["find", "filter", "$db", "lsid", "lsid"]
        );
        assert_eq!(all[4].1, RawBsonRef::Int32(3));
        assert_eq!((found.name, found.subject), ("find", Some(RawBsonRef::String("films"))));
        assert_eq!(found.database, Some(RawBsonRef::String("a")));
        assert_eq!(found.session, Some(RawBsonRef::Int32(2)));
        assert_eq!(found.max_time, None);
        let many: RawDocumentBuf = {
            let mut many = rawdoc! { "find": 1 };
            (0..KEPT).for_each(|_| many.append(cstr!("x"), 1));
            many.append(cstr!("lsid"), 7);
            many
        };
        let mut all = Vec::new();
        assert_eq!(CommonFields::read(&many, &mut all).unwrap().session, Some(RawBsonRef::Int32(7)));
        assert_eq!(all.len(), KEPT);
        let empty = rawdoc! {};
        assert_eq!(CommonFields::read(&empty, &mut Vec::new()).unwrap().name, "");
    }
}
