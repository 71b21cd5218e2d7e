//! A prepared statement, and those of one connection.
//!
//! Statements belong to their connection, as cursors do. How many there may be, and how many bytes all of them have, is limited. A number is
//! never given twice on a connection, so that a request that meets a forgotten statement fails instead of executing another.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bson::RawDocumentBuf;
use prometheus_client::metrics::gauge::Gauge;
use treedb_collections::{Collection, ErrorCode};
use treedb_protocol::frame::MAX_BODY;

use super::template::Template;
use crate::metrics::Counted;
use crate::native::failure::Failure;

/// Statements that one connection may have.
const MAX_STATEMENTS: usize = 256;

/// Bytes that the statements of one connection may have together.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// The documents of one execution have at most so many bytes, and [`GROWTH`] times those of its body: they repeat what the statement holds.
const FREE_GROWTH: usize = 64 * 1024;

/// See [`FREE_GROWTH`].
const GROWTH: usize = 8;

/// The most bytes that the documents of one execution may have, whose body has `length`.
pub(super) fn most_built(length: usize) -> usize {
    // No more than could have been sent.
    length.saturating_mul(GROWTH).saturating_add(FREE_GROWTH).min(MAX_BODY as usize)
}

/// What a statement does.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Gets the document with an `_id`, the only parameter.
    Get,
    /// Finds documents.
    Find { filter: Template, sort: Option<RawDocumentBuf>, projection: Option<RawDocumentBuf> },
    /// Inserts documents of one shape.
    Insert(Template),
    /// Changes documents.
    Update { filter: Template, update: Template },
    /// Deletes documents.
    Delete(Template),
    /// Counts documents.
    Count(Template),
}

/// A prepared statement.
pub(crate) struct Statement {
    pub(super) kind: Kind,
    pub(super) collection: Collection,
    pub(super) parameters: usize,
    /// Its filter asks for one `_id`.
    by_id: bool,
    /// How long it took the last time, in microseconds.
    last: AtomicU32,
}

impl Statement {
    pub(super) fn new(kind: Kind, collection: Collection, parameters: usize, by_id: bool) -> Self {
        Statement { kind, collection, parameters, by_id, last: AtomicU32::new(u32::MAX) }
    }

    /// Whether its filter asks for one `_id`.
    pub(crate) fn is_by_id(&self) -> bool {
        self.by_id
    }

    /// How many documents an insert with this body has.
    fn documents(body: &[u8]) -> Option<usize> {
        // After the statement's number.
        Some(u32::from_le_bytes(*body.get(4..)?.first_chunk()?) as usize)
    }

    /// The most bytes that an execution whose body has `length` bytes and begins with `body` builds.
    pub(crate) fn builds(&self, body: &[u8], length: usize) -> usize {
        let most = match &self.kind {
            Kind::Get => 0,
            Kind::Insert(template) => template.most(Self::documents(body).unwrap_or_default(), length),
            Kind::Find { filter, .. } | Kind::Delete(filter) | Kind::Count(filter) => filter.most(1, length),
            Kind::Update { filter, update } => filter.most(1, length).saturating_add(update.most(1, length)),
        };
        most.min(most_built(length))
    }

    /// What it does.
    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// `database.collection`.
    pub(crate) fn namespace(&self) -> &str {
        self.collection.namespace().as_str()
    }

    /// How long it took the last time; for ever if it has not been executed yet.
    pub(crate) fn last(&self) -> Duration {
        match self.last.load(Ordering::Relaxed) {
            u32::MAX => Duration::MAX,
            micros => Duration::from_micros(u64::from(micros)),
        }
    }

    /// Remembers how long it took.
    pub(crate) fn note(&self, took: Duration) {
        self.last.store(u32::try_from(took.as_micros()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    fn size(&self) -> usize {
        let some =
            |document: &Option<RawDocumentBuf>| document.as_ref().map_or(0, |some| some.as_bytes().len());
        size_of::<Statement>()
            + match &self.kind {
                Kind::Get => 0,
                Kind::Find { filter, sort, projection } => filter.size() + some(sort) + some(projection),
                Kind::Insert(template) | Kind::Delete(template) | Kind::Count(template) => template.size(),
                Kind::Update { filter, update } => filter.size() + update.size(),
            }
    }
}

/// The statements of a connection.
pub(crate) struct Statements {
    all: Mutex<All>,
    /// How many all connections have.
    gauge: Gauge,
}

#[derive(Default)]
struct All {
    last_number: u32,
    bytes: usize,
    by_number: BTreeMap<u32, (Arc<Statement>, Counted)>,
}

impl Statements {
    /// None; `gauge` counts them.
    pub(crate) fn new(gauge: Gauge) -> Self {
        Statements { all: Mutex::default(), gauge }
    }

    /// Keeps a statement and returns its number, which is never 0.
    ///
    /// # Errors
    /// There are too many already, or they have too many bytes.
    pub(crate) fn keep(&self, statement: Statement) -> Result<u32, Failure> {
        let mut all = self.lock();
        let bytes = all.bytes + statement.size();
        let number = all.last_number.checked_add(1);
        let (Some(number), true) = (number, all.by_number.len() < MAX_STATEMENTS && bytes <= MAX_BYTES)
        else {
            let message = format!(
                "a connection has at most {MAX_STATEMENTS} prepared statements of {MAX_BYTES} bytes together: forget some"
            );
            return Err(Failure::new(ErrorCode::ExceededMemoryLimit, message));
        };
        (all.last_number, all.bytes) = (number, bytes);
        all.by_number.insert(number, (Arc::new(statement), Counted::by(&self.gauge)));
        Ok(number)
    }

    /// The statement with this number.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<Statement>> {
        self.lock().by_number.get(&number).map(|(statement, _)| Arc::clone(statement))
    }

    /// Forgets a statement; false if there is none with this number. Requests that execute it go on.
    pub(crate) fn forget(&self, number: u32) -> bool {
        let mut all = self.lock();
        let Some((gone, _)) = all.by_number.remove(&number) else { return false };
        all.bytes -= gone.size();
        true
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        // Nothing here panics between two changes.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
