//! Where the writer's last puts went, for each table.

use crate::btree::Finger;

/// Number of tables that have a finger at the same time, for transactions that write to several tables in turn.
const COUNT: usize = 4;

/// The finger of a table, and the transaction number from which on its pages are the writer's own.
#[derive(Debug, Default)]
struct TableFinger {
    table: u32,
    own: u64,
    finger: Finger,
}

/// The fingers of a transaction. A change of a table other than a put resets its finger; what returns pages (a rollback,
/// also to a savepoint) resets all of them.
#[derive(Debug, Default)]
pub(super) struct Fingers {
    slots: [TableFinger; COUNT],
}

impl Fingers {
    fn slot(&mut self, table: u32) -> &mut TableFinger {
        &mut self.slots[table as usize % COUNT]
    }

    /// The finger of `table`, while pages born since `own` are the writer's own.
    #[inline]
    pub(super) fn of(&mut self, table: u32, own: u64) -> &mut Finger {
        let slot = self.slot(table);
        if (slot.table, slot.own) != (table, own) {
            (slot.table, slot.own) = (table, own);
            slot.finger.reset();
        }
        &mut slot.finger
    }

    /// Resets the finger of `table`.
    #[inline]
    pub(super) fn reset_table(&mut self, table: u32) {
        let slot = self.slot(table);
        if slot.table == table {
            slot.finger.reset();
        }
    }

    /// Resets all fingers.
    pub(super) fn reset_all(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.finger.reset());
    }
}
