//! What the fuzz targets of `fuzz/` call: bytes from the wire, with no wire. Only there when they are built.

use std::sync::Arc;
use std::time::Duration;

use treedb_collections::Database;
use treedb_protocol::frame::{HEADER, Header, MAX_BODY};
use treedb_storage::Options;
use treedb_storage::disk::SimDisk;

use crate::access::Access;
use crate::metrics::NativeCounts;
use crate::mongo::{op_msg::OpMsg, op_query};
use crate::native::execute::Session;
use crate::native::running::Place;
use crate::operations::Operations;

/// Reads bytes as a message of MongoDB's, of both kinds.
pub fn mongo(bytes: &[u8]) {
    if let Ok(message) = OpMsg::parse(bytes.to_vec()) {
        let _ = message.body().iter().count();
        for name in message.sequence_names() {
            let documents = message.sequence(name).into_iter().flatten();
            for document in documents {
                let _ = document.iter().count();
            }
        }
    }
    let _ = op_query::parse(bytes);
}

/// A connection of the native protocol to a database in memory.
pub struct Native(Session);

impl Native {
    /// A connection to a new database.
    ///
    /// # Errors
    /// Those of opening one.
    pub fn new() -> treedb_query::query::Result<Native> {
        let mut options = Options::default();
        options.disk = Arc::new(SimDisk::new());
        options.background = false;
        options.max_bytes = 64 << 20;
        options.log_segment_bytes = 256 << 10;
        options.value_segment_bytes = 256 << 10;
        let database = Database::open_with("/data", options)?;
        let access = Arc::new(Access::new(database.clone(), false)?);
        let operations = Arc::new(Operations::new(Duration::from_secs(1)));
        let peer = ([127, 0, 0, 1], 1).into();
        Ok(Native(Session::new(database, access, operations, NativeCounts::default(), 1, peer)))
    }

    /// Carries out the requests in `bytes`, frame after frame, and returns how many there were.
    pub fn run(&self, mut bytes: &[u8]) -> usize {
        let mut frames = 0;
        while let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() {
            let header = Header::from_bytes(header);
            if header.within(MAX_BODY).is_err() {
                break;
            }
            // A body that is cut short is one all the same.
            let (body, rest) = rest.split_at((header.length as usize).min(rest.len()));
            let mut answer = Vec::new();
            let statement = self.0.statement(&header, body);
            self.0.answer(&header, body, statement.as_deref(), Place::Own, &mut answer);
            assert!(answer.len() >= HEADER, "an answer without a header");
            frames += 1;
            bytes = rest;
        }
        frames
    }
}
