//! Requests that prepare statements and execute them.
//!
//! ```text
//! PREPARE  u16 opcode, text namespace, then of
//!            GET     document {_id: {$param: 0}}
//!            INSERT  document
//!            FIND    u8 which, document filter, document sort (which & 1), document projection (which & 2)
//!            UPDATE  document filter, document update
//!            DELETE, COUNT  document filter          -> u32 statement, u16 parameters
//! EXECUTE  u32 statement, then of
//!            GET     document values
//!            INSERT  u32 n, n documents values
//!            FIND    u32 batch, u64 skip, u64 limit, document values
//!            UPDATE  document values
//!            DELETE  u64 limit, document values
//!            COUNT   u64 skip, u64 limit, document values -> as the request that was prepared
//! FORGET   u32 statement -> u8 existed
//! ```
//!
//! `{$param: n}` in a document stands for the value with number n, from 0. The names in `values` do not count: the fields are the values 0,
//! 1, 2, and so on. The flags of EXECUTE are those of the request that was prepared.

use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};

use super::find::{PROJECTION, SORT, which};
use super::{Ack, Batch, Call, Inserted, MULTI, Resource, ResourceOf, UNORDERED, UPSERT, Updated};
use crate::bytes::{Malformed, Reader, length, put_text};
use crate::frame::{MAX_ITEMS, opcode};

/// The least bytes of the values of a document.
const LEAST_DOCUMENT: usize = 5;

/// A request without its values.
#[derive(Debug, Clone, Copy)]
pub struct Prepare<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// The request.
    pub shape: Shape<'a>,
}

/// What is prepared. `{$param: n}` in a document stands for the value with number n.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Shape<'a> {
    /// To get the document with an `_id`, which is the only value.
    Get,
    /// To insert documents like this one.
    Insert(&'a RawDocument),
    /// To find documents.
    Find {
        /// Which documents.
        filter: &'a RawDocument,
        /// In which order. Without parameters.
        sort: Option<&'a RawDocument>,
        /// Which fields. Without parameters.
        projection: Option<&'a RawDocument>,
    },
    /// To change documents.
    Update {
        /// Which documents.
        filter: &'a RawDocument,
        /// Update operators, or a replacement.
        update: &'a RawDocument,
    },
    /// To delete documents.
    Delete(&'a RawDocument),
    /// To count documents.
    Count(&'a RawDocument),
}

/// A statement that has been prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    /// Its number on this connection.
    pub statement: u32,
    /// How many values it takes.
    pub parameters: u16,
}

impl<'a> Prepare<'a> {
    /// Reads the request.
    pub fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let start = body.clone();
        let opcode = body.u16("opcode")?;
        let namespace = body.text("namespace")?;
        let shape = match opcode {
            opcode::GET => {
                let start = body.clone();
                if *body.document("_id")? != *by_id() {
                    return Err(start.wrong("_id", "must be {_id: {$param: 0}}"));
                }
                Shape::Get
            }
            opcode::INSERT => Shape::Insert(body.document("document")?),
            opcode::FIND => {
                let which = which(body)?;
                let filter = body.document("filter")?;
                let mut optional =
                    |bit, field| if which & bit != 0 { body.document(field).map(Some) } else { Ok(None) };
                Shape::Find {
                    filter,
                    sort: optional(SORT, "sort")?,
                    projection: optional(PROJECTION, "projection")?,
                }
            }
            opcode::UPDATE => {
                Shape::Update { filter: body.document("filter")?, update: body.document("update")? }
            }
            opcode::DELETE => Shape::Delete(body.document("filter")?),
            opcode::COUNT => Shape::Count(body.document("filter")?),
            other => return Err(start.wrong("opcode", format!("{other:#06x} cannot be prepared"))),
        };
        Ok(Prepare { namespace, shape })
    }
}

/// `{_id: {$param: 0}}`.
fn by_id() -> RawDocumentBuf {
    rawdoc! { "_id": { "$param": 0 } }
}

impl Call for Prepare<'_> {
    const OPCODE: u16 = opcode::PREPARE;
    type Answer = Prepared;
    const OPENS: Option<ResourceOf<Prepared>> =
        Some(|prepared| Some(Resource::Statement(prepared.statement)));

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let get = by_id();
        let (opcode, documents) = match self.shape {
            Shape::Get => (opcode::GET, [Some(&*get), None, None]),
            Shape::Insert(document) => (opcode::INSERT, [Some(document), None, None]),
            Shape::Find { filter, sort, projection } => (opcode::FIND, [Some(filter), sort, projection]),
            Shape::Update { filter, update } => (opcode::UPDATE, [Some(filter), Some(update), None]),
            Shape::Delete(filter) => (opcode::DELETE, [Some(filter), None, None]),
            Shape::Count(filter) => (opcode::COUNT, [Some(filter), None, None]),
        };
        out.extend_from_slice(&opcode.to_le_bytes());
        put_text(out, "namespace", self.namespace)?;
        if let Shape::Find { sort, projection, .. } = self.shape {
            let sort = if sort.is_some() { SORT } else { 0 };
            out.push(sort | if projection.is_some() { PROJECTION } else { 0 });
        }
        documents.into_iter().flatten().for_each(|document| out.extend_from_slice(document.as_bytes()));
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Prepared, Malformed> {
        Ok(Prepared { statement: body.u32("statement")?, parameters: body.u16("parameters")? })
    }
}

impl Prepared {
    /// Appends the answer's body.
    pub fn answer(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.statement.to_le_bytes());
        out.extend_from_slice(&self.parameters.to_le_bytes());
    }
}

/// Values for a statement, in the order of their numbers.
pub fn values<V: Into<RawBson>>(values: impl IntoIterator<Item = V>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    values.into_iter().for_each(|value| document.append(bson::raw::cstr!(""), value.into()));
    document
}

/// What a statement of some kind is executed with.
pub trait Execution {
    /// What the answer says.
    type Answer;

    /// As of [`Call`].
    const OPENS: Option<ResourceOf<Self::Answer>> = None;

    /// The header's flags.
    fn flags(&self) -> u16 {
        0
    }

    /// Appends what follows the statement's number.
    ///
    /// Errors: a field that is too long for the wire.
    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed>;

    /// Reads the answer's body.
    ///
    /// Errors: it is not what the protocol says.
    fn read_answer(body: &mut Reader<'_>) -> Result<Self::Answer, Malformed>;
}

/// Executes a statement.
#[derive(Debug, Clone, Copy)]
pub struct Execute<E> {
    /// Its number.
    pub statement: u32,
    /// The values, and what else a request of its kind has.
    pub with: E,
}

impl<E: Execution> Call for Execute<E> {
    const OPCODE: u16 = opcode::EXECUTE;
    type Answer = E::Answer;
    const OPENS: Option<ResourceOf<E::Answer>> = E::OPENS;

    fn flags(&self) -> u16 {
        self.with.flags()
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.statement.to_le_bytes());
        self.with.write(out)
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<E::Answer, Malformed> {
        E::read_answer(body)
    }
}

/// An execution as the server finds it in a frame: what follows the number depends on the statement.
#[derive(Debug, Clone, Copy)]
pub struct Executed<'a> {
    /// The statement's number.
    pub statement: u32,
    /// The header's flags.
    pub flags: u16,
    /// The rest of the body.
    pub rest: &'a [u8],
}

impl<'a> Executed<'a> {
    /// Reads the request.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let statement = body.u32("statement")?;
        let rest = body.take("values", body.remaining())?;
        Ok(Executed { statement, flags, rest })
    }
}

/// The `_id` to get.
#[derive(Debug, Clone, Copy)]
pub struct GetWith<'a> {
    /// The value of `_id`.
    pub values: &'a RawDocument,
}

impl<'a> GetWith<'a> {
    /// Reads what follows the number.
    pub fn read(_: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(GetWith { values: body.document("values")? })
    }
}

impl Execution for GetWith<'_> {
    type Answer = Option<RawDocumentBuf>;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(self.values.as_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Self::Answer, Malformed> {
        super::Get::read_answer(body)
    }
}

/// Documents to insert: for each the values of the shape.
#[derive(Debug, Clone)]
pub struct InsertWith<'a> {
    /// One document or more.
    pub rows: Vec<&'a RawDocument>,
    /// As of [`super::Insert`].
    pub ordered: bool,
    /// When to acknowledge.
    pub ack: Ack,
}

impl<'a> InsertWith<'a> {
    /// Reads what follows the number.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let start = body.clone();
        let count = body.count("documents", LEAST_DOCUMENT)?;
        if count == 0 || count > MAX_ITEMS {
            return Err(start.wrong("documents", format!("must be 1 to {MAX_ITEMS}, are {count}")));
        }
        let rows = (0..count).map(|_| body.document("values")).collect::<Result<_, _>>()?;
        Ok(InsertWith { rows, ordered: flags & UNORDERED == 0, ack: Ack::of(flags) })
    }
}

impl Execution for InsertWith<'_> {
    type Answer = Inserted;

    fn flags(&self) -> u16 {
        self.ack as u16 | if self.ordered { 0 } else { UNORDERED }
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&length(out.len(), "documents", self.rows.len())?.to_le_bytes());
        self.rows.iter().for_each(|row| out.extend_from_slice(row.as_bytes()));
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Inserted, Malformed> {
        super::Insert::read_answer(body)
    }
}

/// What to find.
#[derive(Debug, Clone, Copy)]
pub struct FindWith<'a> {
    /// Documents in the first batch at most; 0 leaves it to the server.
    pub batch: u32,
    /// So many matches are left out.
    pub skip: u64,
    /// At most so many documents in all; 0 for no limit.
    pub limit: u64,
    /// Values of the filter.
    pub values: &'a RawDocument,
}

impl<'a> FindWith<'a> {
    /// Reads what follows the number.
    pub fn read(_: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(FindWith {
            batch: body.u32("batch")?,
            skip: body.u64("skip")?,
            limit: body.u64("limit")?,
            values: body.document("values")?,
        })
    }
}

impl Execution for FindWith<'_> {
    type Answer = Batch;
    const OPENS: Option<ResourceOf<Batch>> = Some(Batch::resource);

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.batch.to_le_bytes());
        out.extend_from_slice(&self.skip.to_le_bytes());
        out.extend_from_slice(&self.limit.to_le_bytes());
        out.extend_from_slice(self.values.as_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Batch, Malformed> {
        super::Find::read_answer(body)
    }
}

/// What to change.
#[derive(Debug, Clone, Copy)]
pub struct UpdateWith<'a> {
    /// Values of the filter and of the update.
    pub values: &'a RawDocument,
    /// Every match, or only the first.
    pub multi: bool,
    /// Insert a document if none matches.
    pub upsert: bool,
    /// When to acknowledge.
    pub ack: Ack,
}

impl<'a> UpdateWith<'a> {
    /// Reads what follows the number.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let values = body.document("values")?;
        Ok(UpdateWith { values, multi: flags & MULTI != 0, upsert: flags & UPSERT != 0, ack: Ack::of(flags) })
    }
}

impl Execution for UpdateWith<'_> {
    type Answer = Updated;

    fn flags(&self) -> u16 {
        self.ack as u16 | if self.multi { MULTI } else { 0 } | if self.upsert { UPSERT } else { 0 }
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(self.values.as_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Updated, Malformed> {
        super::Update::read_answer(body)
    }
}

/// What to delete.
#[derive(Debug, Clone, Copy)]
pub struct DeleteWith<'a> {
    /// At most so many; 0 for all.
    pub limit: u64,
    /// Values of the filter.
    pub values: &'a RawDocument,
    /// When to acknowledge.
    pub ack: Ack,
}

impl<'a> DeleteWith<'a> {
    /// Reads what follows the number.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(DeleteWith { limit: body.u64("limit")?, values: body.document("values")?, ack: Ack::of(flags) })
    }
}

impl Execution for DeleteWith<'_> {
    type Answer = u64;

    fn flags(&self) -> u16 {
        self.ack as u16
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.limit.to_le_bytes());
        out.extend_from_slice(self.values.as_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<u64, Malformed> {
        super::Delete::read_answer(body)
    }
}

/// What to count.
#[derive(Debug, Clone, Copy)]
pub struct CountWith<'a> {
    /// So many matches are not counted.
    pub skip: u64,
    /// Counts no further than this; 0 for no limit.
    pub limit: u64,
    /// Values of the filter.
    pub values: &'a RawDocument,
}

impl<'a> CountWith<'a> {
    /// Reads what follows the number.
    pub fn read(_: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(CountWith { skip: body.u64("skip")?, limit: body.u64("limit")?, values: body.document("values")? })
    }
}

impl Execution for CountWith<'_> {
    type Answer = u64;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.skip.to_le_bytes());
        out.extend_from_slice(&self.limit.to_le_bytes());
        out.extend_from_slice(self.values.as_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<u64, Malformed> {
        super::Count::read_answer(body)
    }
}

/// Forgets a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forget {
    /// Its number.
    pub statement: u32,
}

impl Forget {
    /// Reads the request.
    pub fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Forget { statement: body.u32("statement")? })
    }
}

impl Call for Forget {
    const OPCODE: u16 = opcode::FORGET;
    /// True if there was such a statement.
    type Answer = bool;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.statement.to_le_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<bool, Malformed> {
        body.bool("existed")
    }
}
