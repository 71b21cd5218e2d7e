//! The groups of a part of the documents, which one of several processes has made: as bytes, and merged with others.
//!
//! The parts are merged in any order, so they are made only where the answer does not depend on it. A message is a number of
//! groups; each is the group's key and its `_id`, if that is not the key (strings of [`crate::query::byte_form`]), then
//! the states ([`State::put`](crate::aggregate::accumulator::State::put)).

use std::sync::Arc;

use crate::error::{ErrorCode, QueryError, Result};
use crate::query::byte_form::{put_string, take_string};

use crate::aggregate::accumulator::State;
use crate::aggregate::context::Context;
use crate::aggregate::stage::StagePart;
use crate::aggregate::stream::BoxedStream;

use super::group_table::GroupTable;
use super::{Group, GroupStream, parallel};

/// Bytes of a message, unless a single group has more.
const MESSAGE: usize = 64 * 1024;

/// The groups of a part of the documents.
pub(super) struct GroupPart {
    stage: Arc<Group>,
    table: GroupTable,
    /// Bytes that states have allocated, and how many all may take.
    allocated: usize,
    limit: usize,
}

impl GroupPart {
    /// Groups `documents`; `None` if the groups do not fit in memory.
    pub(super) fn new(
        stage: Arc<Group>,
        documents: BoxedStream,
        context: &Context,
    ) -> Result<Option<GroupPart>> {
        let groups = parallel::group_part(&stage, context, documents)?;
        let limit = context.memory_limit;
        Ok(groups.map(|(table, allocated)| GroupPart { stage, table, allocated, limit }))
    }

    fn damaged() -> QueryError {
        QueryError::new(ErrorCode::InternalError, "$group: a process has sent groups that cannot be read")
    }
}

impl StagePart for GroupPart {
    fn send(&self, send: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut message = Vec::new();
        self.table.groups(|key, id, states| {
            put_string(&mut message, key);
            put_string(&mut message, id);
            if !states.iter().all(|state| state.put(&mut message)) {
                return Err(GroupPart::damaged());
            }
            if message.len() >= MESSAGE {
                send(&message)?;
                message.clear();
            }
            Ok(())
        })?;
        if message.is_empty() { Ok(()) } else { send(&message) }
    }

    fn receive(&mut self, mut message: &[u8]) -> Result<bool> {
        let GroupPart { stage, table, allocated, limit } = self;
        let bytes = &mut message;
        while !bytes.is_empty() {
            let (Some(key), Some(id)) = (take_string(bytes), take_string(bytes)) else {
                return Err(GroupPart::damaged());
            };
            let states: Option<Vec<State>> = stage.outputs.starts().map(|start| start.take(bytes)).collect();
            let states = states.ok_or_else(GroupPart::damaged)?;
            let sent: usize = states.iter().map(State::allocated).sum();
            let before = table.len();
            let grown = table.merge_group(key, id, states.into_iter(), &stage.outputs)?;
            // A group that is new here has brought what its states had allocated.
            *allocated += if table.len() > before { sent } else { grown };
            if table.size() + *allocated > *limit || table.is_full() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn open(self: Box<Self>, context: &Context) -> BoxedStream {
        Box::new(GroupStream::grouped(self.stage, vec![self.table], context))
    }
}
