//! Abbreviated keys of texts: the beginning of a text's sort key under a collation, as a number. Most comparisons of a
//! sort need no more, and a comparison of texts under a collation costs some hundred times as much.
//!
//! The server makes them under collations of ICU. Under those of the C library it makes none: there have been versions whose
//! `strxfrm` gave sort keys in another order than that of `strcoll`, by which the server compares. Here they are made
//! nevertheless, and are not certain ([`TextAbbreviation::are_certain`]): after sorting by them, the sorter compares each text with
//! the one before it, and sorts again without them if one is out of place.

use std::marker::PhantomData;
use std::ptr;

use pgrx::pg_sys;

use super::compat::LibraryLocale;
use super::datum::{Datum, Layout};
use super::fault;

/// Makes abbreviated keys of values of type text under one collation.
pub(crate) struct TextAbbreviation {
    maker: Maker,
    /// It holds memory of the statement.
    statement: PhantomData<*mut ()>,
}

/// What makes them.
enum Maker {
    Server(Box<pg_sys::SortSupportData>),
    Library(LibraryKeys),
}

impl TextAbbreviation {
    /// `None` if there are none for the collation.
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
        let maker = match support.abbrev_converter {
            Some(_) => Maker::Server(support),
            None => Maker::Library(LibraryKeys::new(LibraryLocale::of(collation)?)),
        };
        Some(TextAbbreviation { maker, statement: PhantomData })
    }

    /// Whether a key that is less always belongs to a text that is less.
    pub(crate) fn are_certain(&self) -> bool {
        matches!(self.maker, Maker::Server(_))
    }

    /// The abbreviated key of a text. `None` for a value of another layout.
    pub(crate) fn key(&mut self, text: Datum<'_>) -> Option<u64> {
        if text.layout() != Layout::Varlena {
            return None;
        }
        match &mut self.maker {
            Maker::Server(support) => {
                let convert = support.abbrev_converter?;
                let (support, raw) = (ptr::from_mut(&mut **support), text.raw());
                // SAFETY: a function of the server's for values of variable length, which is given what it was set up with. It
                // raises SQL errors, so it is called as the server's functions are.
                let key = unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| convert(raw, support)) };
                Some(key.value() as u64)
            }
            Maker::Library(keys) => Some(keys.key(&text.bytes())),
        }
    }
}

/// Initial bytes of the buffer for a sort key; a longer key makes it grow.
const SORT_KEY: usize = 1024;

/// Sort keys of the C library (`strxfrm`).
struct LibraryKeys {
    locale: LibraryLocale,
    /// Where a text is, closed by a zero byte.
    text: Vec<u8>,
    /// Where its sort key is.
    sort_key: Vec<u8>,
    /// A test asks for keys in the opposite order.
    wrong: bool,
}

impl LibraryKeys {
    fn new(locale: LibraryLocale) -> LibraryKeys {
        let wrong = fault::is_asked_for("library_sort_keys");
        LibraryKeys { locale, text: Vec::new(), sort_key: vec![0; SORT_KEY], wrong }
    }

    /// The first bytes of a text's sort key, as a number.
    fn key(&mut self, text: &[u8]) -> u64 {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.text.push(0);
        let mut len = self.locale.sort_key(&self.text, &mut self.sort_key);
        if len >= self.sort_key.len() {
            self.sort_key.resize((len + 1).next_power_of_two(), 0);
            len = self.locale.sort_key(&self.text, &mut self.sort_key);
        }
        let mut first = [0; 8];
        for (place, byte) in first.iter_mut().zip(self.sort_key.iter().take(len)) {
            *place = *byte;
        }
        let key = u64::from_be_bytes(first);
        if self.wrong { !key } else { key }
    }
}
