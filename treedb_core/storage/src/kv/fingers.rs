//! Where the writer's last puts went, table by table.

use crate::btree::Finger;

/// Tables that have a finger at the same time: a transaction that goes through its tables in turn keeps them all.
const COUNT: usize = 4;

/// The finger of a table, and since when its pages have been the writer's own.
#[derive(Debug, Default)]
struct Placed {
    table: u32,
    own: u64,
    finger: Finger,
}

/// The fingers of a transaction. Other changes of a table than puts lift its finger; what gives back pages (the end of a
/// transaction without a commit, going back to a savepoint) lifts all.
#[derive(Debug, Default)]
pub(super) struct Fingers {
    places: [Placed; COUNT],
}

impl Fingers {
    fn place(&mut self, table: u32) -> &mut Placed {
        &mut self.places[table as usize % COUNT]
    }

    /// The finger of `table`, while pages born since `own` are the writer's own.
    #[inline]
    pub(super) fn of(&mut self, table: u32, own: u64) -> &mut Finger {
        let place = self.place(table);
        if (place.table, place.own) != (table, own) {
            (place.table, place.own) = (table, own);
            place.finger.lift();
        }
        &mut place.finger
    }

    /// Lifts the finger of `table`.
    #[inline]
    pub(super) fn lift_from(&mut self, table: u32) {
        let place = self.place(table);
        if place.table == table {
            place.finger.lift();
        }
    }

    /// Lifts all fingers.
    pub(super) fn lift(&mut self) {
        self.places.iter_mut().for_each(|place| place.finger.lift());
    }
}
