//! Where the writer's last puts went, table by table.

use crate::btree::Finger;

/// Tables that have a finger at the same time: a transaction that goes through its tables in turn keeps them all.
const COUNT: usize = 4;

/// The finger of a table, and since when its pages have been the writer's own.
#[derive(Debug, Default)]
struct TableFinger {
    table: u32,
    own: u64,
    finger: Finger,
}

/// The fingers of a transaction. Other changes of a table than puts lift its finger; what gives back pages (the end of a
/// transaction without a commit, going back to a savepoint) lifts all.
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

    /// Lifts the finger of `table`.
    #[inline]
    pub(super) fn reset_table(&mut self, table: u32) {
        let slot = self.slot(table);
        if slot.table == table {
            slot.finger.reset();
        }
    }

    /// Lifts all fingers.
    pub(super) fn reset_all(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.finger.reset());
    }
}
