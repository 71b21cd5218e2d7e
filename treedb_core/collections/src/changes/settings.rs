//! Whether changes are recorded, and how long they are kept.

use std::time::Duration;

use bson::{Document, doc};

use treedb_query::error::Result;

use super::record::damaged;

/// How long changes are kept: until one of the limits is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeLogOptions {
    /// The maximum age.
    pub keep: Duration,
    /// The maximum bytes of records and of the rows of dropped collections.
    pub bytes: u64,
}

impl Default for ChangeLogOptions {
    /// A day, and 256 MiB.
    fn default() -> Self {
        ChangeLogOptions { keep: Duration::from_secs(24 * 3600), bytes: 256 << 20 }
    }
}

/// The state of a change log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeLogStatus {
    /// The options.
    pub options: ChangeLogOptions,
    /// Sequence number of the oldest change that is kept; `next` if there is none.
    pub first: u64,
    /// Sequence number of the next change.
    pub next: u64,
    /// When the oldest change that is kept was committed: milliseconds since 1970.
    pub oldest: i64,
    /// Bytes of the records that are kept, including the row history.
    pub bytes: u64,
}

/// The settings in the table `changes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) on: bool,
    /// Sequence number of the first change since the log was switched on; or of the next, while it is off.
    pub(crate) from: u64,
    /// When it was switched on: milliseconds since 1970.
    pub(crate) since: i64,
    pub(crate) options: ChangeLogOptions,
}

impl Settings {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let entry = doc! {
            "v": 1, "on": self.on, "from": self.from.cast_signed(), "since": self.since,
            "keep_ms": i64::try_from(self.options.keep.as_millis()).unwrap_or(i64::MAX),
            "bytes": i64::try_from(self.options.bytes).unwrap_or(i64::MAX),
        };
        Ok(entry.to_vec()?)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Settings> {
        let read = || {
            let entry = Document::from_reader(bytes).ok()?;
            let number = |name| entry.get_i64(name).ok();
            (entry.get_i32("v").ok()? == 1).then_some(())?;
            Some(Settings {
                on: entry.get_bool("on").ok()?,
                from: number("from")?.cast_unsigned(),
                since: number("since")?,
                options: ChangeLogOptions {
                    keep: Duration::from_millis(u64::try_from(number("keep_ms")?).ok()?),
                    bytes: u64::try_from(number("bytes")?).ok()?,
                },
            })
        };
        read().ok_or_else(|| damaged("the settings"))
    }
}
