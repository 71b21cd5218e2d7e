//! Abbreviated keys of texts: the beginning of a text's sort key under a collation, as a number. Most comparisons of a
//! sort need no more, and a comparison of texts under a collation costs some hundred times as much.

use std::marker::PhantomData;
use std::ptr;

use pgrx::pg_sys;

use super::datum::{Datum, Layout};

/// Makes abbreviated keys of values of type text under one collation.
pub(crate) struct TextAbbreviation {
    support: Box<pg_sys::SortSupportData>,
    /// It holds memory of the statement.
    statement: PhantomData<*mut ()>,
}

impl TextAbbreviation {
    /// `None` if the server has no abbreviated keys for the collation.
    pub(crate) fn new(collation: pg_sys::Oid) -> Option<TextAbbreviation> {
        let mut support = Box::<pg_sys::SortSupportData>::default();
        // SAFETY: the function fills the structure, which stays in its place, and allocates in the context named there.
        unsafe {
            support.ssup_cxt = pg_sys::CurrentMemoryContext;
            support.ssup_collation = collation;
            support.ssup_attno = 1;
            support.abbreviate = true;
            let place = pg_sys::Datum::from(ptr::from_mut(&mut *support));
            pg_sys::OidFunctionCall1Coll(pg_sys::F_BTTEXTSORTSUPPORT.into(), pg_sys::InvalidOid, place);
        }
        support.abbrev_converter.is_some().then_some(TextAbbreviation { support, statement: PhantomData })
    }

    /// The abbreviated key of a text: one that is less belongs to a text that is less. `None` for a value of another
    /// layout.
    pub(crate) fn key(&mut self, text: Datum<'_>) -> Option<u64> {
        let convert = self.support.abbrev_converter?;
        if text.layout() != Layout::Varlena {
            return None;
        }
        let (support, raw) = (ptr::from_mut(&mut *self.support), text.raw());
        // SAFETY: a function of the server's for values of variable length, which is given what it was set up with. It
        // raises SQL errors, so it is called as the server's functions are.
        let key = unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| convert(raw, support)) };
        Some(key.value() as u64)
    }
}
