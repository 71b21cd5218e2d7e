//! Requests that let the server send batches of a cursor without being asked for each.
//!
//! ```text
//! PULL    u64 cursor, u32 batch, u32 credit -> for each batch a frame: u64 cursor (0: that was all), u32 n, n documents
//! CREDIT  u64 cursor, u32 batches           -> u8 existed
//! ```
//!
//! Every frame of the answer but the last has the flag [`MORE`](crate::frame::MORE). The server sends as many as there is credit
//! for, and then waits for more.

use super::{Batch, Call};
use crate::bytes::{Malformed, Reader};
use crate::frame::opcode;

/// The batches of a cursor, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pull {
    /// The cursor of the previous batch.
    pub cursor: u64,
    /// Documents of a batch at most; 0 leaves it to the server.
    pub batch: u32,
    /// Batches that may be sent before the client grants more.
    pub credit: u32,
}

impl Pull {
    /// Reads the request.
    pub fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Pull { cursor: body.u64("cursor")?, batch: body.u32("batch")?, credit: body.u32("credit")? })
    }
}

impl Call for Pull {
    const OPCODE: u16 = opcode::PULL;
    /// One frame of the answer. It opens nothing: its cursor has been there before, and who has pulled it closes it.
    type Answer = Batch;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.cursor.to_le_bytes());
        out.extend_from_slice(&self.batch.to_le_bytes());
        out.extend_from_slice(&self.credit.to_le_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Batch, Malformed> {
        Batch::read(body)
    }
}

/// Lets a pull go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// The cursor that is pulled.
    pub cursor: u64,
    /// So many more batches.
    pub batches: u32,
}

impl Credit {
    /// Reads the request.
    pub fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Credit { cursor: body.u64("cursor")?, batches: body.u32("batches")? })
    }
}

impl Call for Credit {
    const OPCODE: u16 = opcode::CREDIT;
    /// True if the cursor is being pulled.
    type Answer = bool;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.cursor.to_le_bytes());
        out.extend_from_slice(&self.batches.to_le_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<bool, Malformed> {
        body.bool("existed")
    }
}
