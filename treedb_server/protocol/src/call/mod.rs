//! Every request with its answer.
//!
//! There is one struct per request. [`Call`] is what a client needs of it (write the request, read the answer); the inherent
//! `read` and `answer` functions are what the server needs (read the request, write the answer). [`Request`] is any
//! of them, as the server finds it in a frame.

mod authentication;
mod documents;
mod find;
mod greeting;
mod kv;
mod prepare;
mod pull;
mod search;
#[cfg(test)]
mod tests;

pub use authentication::{Authenticate, Challenge, Prove};
pub use documents::{Count, Delete, DocumentError, Get, Insert, Inserted, Update, Updated};
pub use find::{Batch, BatchWriter, Close, Find, Next};
pub use greeting::{Hello, Ping, Welcome};
pub use kv::{Bound, Entries, EntriesWriter, KvBatch, KvDelete, KvGet, KvPut, KvRange, Op};
pub use prepare::{
    CountWith, DeleteWith, Execute, Executed, Execution, FindWith, Forget, GetWith, InsertWith, Prepare,
    Prepared, Shape, UpdateWith, values,
};
pub use pull::{Credit, Pull};
pub use search::{CreateIndex, DropIndex, ListIndexes, Neighbor, UpdateSearchIndex, VectorSearch};

use crate::bytes::{Malformed, Reader};
use crate::frame::{self, Header, opcode};

/// A request that a client can make.
pub trait Call {
    /// Its opcode.
    const OPCODE: u16;

    /// What the answer says.
    type Answer;

    /// Finds what the answer has opened on the server; `None` if such an answer never opens anything.
    const OPENS: Option<ResourceOf<Self::Answer>> = None;

    /// The header's flags.
    fn flags(&self) -> u16 {
        0
    }

    /// Appends the body.
    ///
    /// Errors: a field that is too long for the wire.
    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed>;

    /// Reads the answer's body.
    ///
    /// Errors: it is not what the protocol says.
    fn read_answer(body: &mut Reader<'_>) -> Result<Self::Answer, Malformed>;

    /// Appends the whole frame.
    ///
    /// Errors: a field, or the whole body, is too long for the wire.
    fn frame(&self, request: u64, out: &mut Vec<u8>) -> Result<(), Malformed> {
        frame::put(out, Self::OPCODE, self.flags(), request, |out| self.write(out))
    }
}

/// Finds what an answer has opened on the server.
pub type ResourceOf<A> = fn(&A) -> Option<Resource>;

/// What an answer has opened on the server, until it is closed or the connection ends. Who throws an answer away closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// A cursor, which [`Close`] closes.
    Cursor(u64),
    /// A statement, which [`Forget`] frees.
    Statement(u32),
}

/// When a write is acknowledged: bits 0 and 1 of the flags of every writing request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[repr(u16)]
pub enum Ack {
    /// 0: the server's default, which is durable unless configured otherwise.
    #[default]
    Server = 0,
    /// 1: when it is on disk.
    Durable = 1,
    /// 2: when the operating system has it; a power cut may lose a complete recent suffix of such writes.
    Relaxed = 2,
    /// 3: when it is visible to others; on disk with the next checkpoint.
    None = 3,
}

impl Ack {
    /// The bits of a request's flags that hold it.
    pub const BITS: u16 = 3;

    /// The setting in a request's flags.
    pub fn of(flags: u16) -> Self {
        match flags & Self::BITS {
            1 => Ack::Durable,
            2 => Ack::Relaxed,
            3 => Ack::None,
            _ => Ack::Server,
        }
    }
}

/// Flag of an insert: continue after a refused document. Without it the first refusal ends the insert.
pub const UNORDERED: u16 = 1 << 2;
/// Flag of an update: change every match, not only the first.
pub const MULTI: u16 = 1 << 2;
/// Flag of an update: insert a document if none matches.
pub const UPSERT: u16 = 1 << 3;
/// Flag of a vector search: compare with all documents.
pub const EXACT: u16 = 1 << 2;
/// Flag of a search for vectors: a projection follows.
pub const PROJECTED: u16 = 1 << 3;
/// Flag of a search for vectors: the greatest distance follows.
pub const WITHIN: u16 = 1 << 4;
/// Flag of a search for vectors: the field follows, of an index of several.
pub const PATH: u16 = 1 << 5;
/// Flag of a list of indexes: refused to whom may not list those of every kind.
pub const EVERY_KIND: u16 = 1 << 2;
/// Flag of a range: from the last key down.
pub const DESCENDING: u16 = 1 << 2;

/// A request, as the server found it in a frame. Borrows from the frame's body.
#[derive(Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant is the struct of its name")]
pub enum Request<'a> {
    Ping(Ping<'a>),
    Authenticate(Authenticate<'a>),
    Prove(Prove<'a>),
    Prepare(Prepare<'a>),
    Execute(Executed<'a>),
    Forget(Forget),
    Insert(Insert<'a>),
    Get(Get<'a>),
    Find(Find<'a>),
    Next(Next),
    Close(Close),
    Pull(Pull),
    Credit(Credit),
    Update(Update<'a>),
    Delete(Delete<'a>),
    Count(Count<'a>),
    VectorSearch(VectorSearch<'a>),
    CreateIndex(CreateIndex<'a>),
    ListIndexes(ListIndexes<'a>),
    DropIndex(DropIndex<'a>),
    UpdateSearchIndex(UpdateSearchIndex<'a>),
    KvGet(KvGet<'a>),
    KvPut(KvPut<'a>),
    KvDelete(KvDelete<'a>),
    KvRange(KvRange<'a>),
    KvBatch(KvBatch<'a>),
}

impl<'a> Request<'a> {
    /// Reads the request of a frame; `None` for an opcode that does not exist.
    ///
    /// Errors: a body that is not what its opcode promises, or flags the opcode does not have.
    pub fn read(header: &Header, body: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let flags = header.flags;
        let mut reader = Reader::new(body);
        let body = &mut reader;
        let (request, known) = match header.opcode {
            opcode::PING => (Request::Ping(Ping::read(body)?), 0),
            opcode::AUTHENTICATE => (Request::Authenticate(Authenticate::read(body)?), 0),
            opcode::PROVE => (Request::Prove(Prove::read(body)?), 0),
            opcode::PREPARE => (Request::Prepare(Prepare::read(body)?), 0),
            // Which flags it may have depends on the statement.
            opcode::EXECUTE => (Request::Execute(Executed::read(flags, body)?), u16::MAX),
            opcode::FORGET => (Request::Forget(Forget::read(body)?), 0),
            opcode::INSERT => (Request::Insert(Insert::read(flags, body)?), Ack::BITS | UNORDERED),
            opcode::GET => (Request::Get(Get::read(body)?), 0),
            opcode::FIND => (Request::Find(Find::read(body)?), 0),
            opcode::NEXT => (Request::Next(Next::read(body)?), 0),
            opcode::CLOSE => (Request::Close(Close::read(body)?), 0),
            opcode::PULL => (Request::Pull(Pull::read(body)?), 0),
            opcode::CREDIT => (Request::Credit(Credit::read(body)?), 0),
            opcode::UPDATE => (Request::Update(Update::read(flags, body)?), Ack::BITS | MULTI | UPSERT),
            opcode::DELETE => (Request::Delete(Delete::read(flags, body)?), Ack::BITS),
            opcode::COUNT => (Request::Count(Count::read(body)?), 0),
            opcode::VECTOR_SEARCH => {
                (Request::VectorSearch(VectorSearch::read(flags, body)?), EXACT | PROJECTED | WITHIN | PATH)
            }
            opcode::CREATE_INDEX => (Request::CreateIndex(CreateIndex::read(body)?), 0),
            opcode::LIST_INDEXES => (Request::ListIndexes(ListIndexes::read(flags, body)?), EVERY_KIND),
            opcode::DROP_INDEX => (Request::DropIndex(DropIndex::read(body)?), 0),
            opcode::UPDATE_SEARCH_INDEX => (Request::UpdateSearchIndex(UpdateSearchIndex::read(body)?), 0),
            opcode::KV_GET => (Request::KvGet(KvGet::read(body)?), 0),
            opcode::KV_PUT => (Request::KvPut(KvPut::read(flags, body)?), Ack::BITS),
            opcode::KV_DELETE => (Request::KvDelete(KvDelete::read(flags, body)?), Ack::BITS),
            opcode::KV_RANGE => (Request::KvRange(KvRange::read(flags, body)?), DESCENDING),
            opcode::KV_BATCH => (Request::KvBatch(KvBatch::read(flags, body)?), Ack::BITS),
            _ => return Ok(None),
        };
        reader.finish()?;
        if flags & !known != 0 {
            return Err(Malformed {
                field: "flags",
                offset: 0,
                what: format!("opcode {:#04x} has no flags {:#06x}", header.opcode, flags & !known),
            });
        }
        Ok(Some(request))
    }
}
