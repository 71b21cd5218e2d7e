//! Functions in FROM whose rows are produced one by one, or that have one number for an answer: what such a function is, as a
//! trait of safe functions.
//!
//! [`super::function_path`] plans a call, [`super::custom_scan`] carries it out.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;

use pgrx::pg_sys;

use super::datum::Datum;
use super::memory::bytes_of_words;
use super::relation::OpenTable;
use super::scan_team::{self, Division, Examined, SharedScan};
use super::snapshot::Registered;

/// The number of arguments that such a function has, all of which are of variable length.
pub(crate) const ARGUMENTS: usize = 3;

/// What a function returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Returned {
    /// A set of values of variable length; none if an argument is NULL.
    Set,
    /// One integer of 64 bits, NULL if an argument is.
    Number,
}

/// A function of the extension's that the planner knows.
///
/// It is strict and has [`ARGUMENTS`] arguments of variable length.
pub(crate) trait StreamedFunction: Sized + 'static {
    /// Its name in the extension's schema.
    const FUNCTION: &'static CStr;
    /// What EXPLAIN calls the plan's node.
    const NODE: &'static CStr;
    /// What EXPLAIN calls the arguments.
    const LABELS: [&'static CStr; ARGUMENTS];
    /// What it returns.
    const RETURNED: Returned = Returned::Set;
    /// Whether what is allocated while rows are read is used later than in the same call of [`Self::fill`].
    const KEEPS_MEMORY: bool;

    /// What executing a call is expected to take; `None` if nothing is known. It must not raise errors: the call may
    /// never be executed.
    fn estimate(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<Estimate>;

    /// How several processes are expected to share a call, if they can: see [`Self::open_part`]. `estimate` is what it takes one
    /// process. It must not raise errors either.
    fn divided(_arguments: &[Argument<'_>; ARGUMENTS], _estimate: &Estimate) -> Option<Divided> {
        None
    }

    /// The table of a call whose rows are made of that table's, each by itself and in no order, and how processes share it.
    fn shared(_call: &Call<'_>) -> Option<(OpenTable, Division)> {
        None
    }

    /// Begins the part of such a call that falls to this process. Only called for one that [`Self::divided`] and
    /// [`Self::shared`] have said something of. What is allocated while the first rows are read is kept.
    fn open_part(call: &Call<'_>, snapshot: Registered, part: SharedScan) -> Self;

    /// Begins a call, under the snapshot of the statement.
    fn open(call: &Call<'_>, snapshot: Registered) -> Self;
    /// Begins a call again, with other arguments; false if that takes [`Self::open`].
    fn reopen(&mut self, call: &Call<'_>) -> bool;
    /// Adds the next rows to a batch, at least one if there are any. False if there are no more.
    fn fill(&mut self, batch: &mut Batch) -> bool;

    /// Shows the call in EXPLAIN: `running` if it has been executed; `examined` is what several processes have looked at, if
    /// they have shared it.
    fn explain(
        running: Option<&Self>,
        arguments: &[Argument<'_>; ARGUMENTS],
        examined: Option<Examined>,
        shown: &mut Explanation<'_>,
    );
}

/// How several processes share a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Divided {
    /// How many workers there are beside this process.
    pub(crate) workers: usize,
    /// What it takes each of them.
    pub(crate) each: Estimate,
}

impl Divided {
    /// `estimate`, of which `whole` is not divided, among the workers that a scan of so many blocks of a table should have; `None`
    /// if there are none.
    pub(crate) fn of(table: &OpenTable, blocks: f64, estimate: &Estimate, whole: f64) -> Option<Divided> {
        let workers = scan_team::workers_for(table.get(), blocks);
        let divisor = scan_team::divisor(workers);
        let each = Estimate {
            startup: estimate.startup,
            total: whole + (estimate.total - whole).max(0.0) / divisor,
            rows: estimate.rows / divisor,
        };
        (workers > 0).then_some(Divided { workers, each })
    }
}

/// What executing a call is expected to take, in the planner's units.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Estimate {
    /// Cost of the first row.
    pub(crate) startup: f64,
    /// Cost of all rows.
    pub(crate) total: f64,
    /// How many rows there are.
    pub(crate) rows: f64,
}

/// An argument as the planner knows it.
pub(crate) enum Argument<'a> {
    /// A constant.
    Constant(Datum<'a>),
    /// NULL: the function returns nothing.
    Null,
    /// An expression, whose value is not known before the call; its SQL where that has been asked for.
    Expression(Option<CString>),
}

impl<'a> Argument<'a> {
    /// The constant, if it is one.
    pub(crate) fn constant(&self) -> Option<Datum<'a>> {
        match self {
            Argument::Constant(value) => Some(*value),
            Argument::Null | Argument::Expression(_) => None,
        }
    }
}

/// A call that is executed.
pub(crate) struct Call<'c> {
    /// The arguments, none of which is NULL.
    pub(crate) arguments: [Datum<'c>; ARGUMENTS],
    /// How many rows are likely to be asked for; 0 for all.
    pub(crate) wanted: usize,
}

/// Rows on their way to the executor: values of variable length, or numbers, one after the other, in memory of our own.
#[derive(Default)]
pub(crate) struct Batch {
    /// The values, each from a word on.
    words: Vec<u64>,
    /// Where each of them begins.
    starts: Vec<usize>,
    /// How many have been taken out.
    taken: usize,
}

/// Words of a batch that are kept for the next one.
const KEPT: usize = 64 * 1024;

impl Batch {
    /// Adds a row with this value.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let (start, size) = (self.words.len(), bytes.len() + pg_sys::VARHDRSZ);
        self.starts.push(start);
        self.words.resize(start + size.div_ceil(size_of::<u64>()), 0);
        let Some(value) = self.words.get_mut(start..) else { return };
        // SAFETY: the value has room for its header, and is aligned for it.
        unsafe { pgrx::varlena::set_varsize_4b(value.as_mut_ptr().cast(), size as i32) };
        if let Some(place) = bytes_of_words(value).get_mut(pg_sys::VARHDRSZ..size) {
            place.copy_from_slice(bytes);
        }
    }

    /// Adds a row with this number.
    pub(crate) fn put_number(&mut self, number: i64) {
        self.starts.push(self.words.len());
        self.words.push(number.cast_unsigned());
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.starts.len()
    }

    /// How many bytes they take.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.words.as_slice())
    }

    /// Takes the next row out; it stays where it is until the batch is changed.
    pub(super) fn take(&mut self, returned: Returned) -> Option<pg_sys::Datum> {
        let value = self.words.get(*self.starts.get(self.taken)?..)?;
        self.taken += 1;
        match returned {
            Returned::Set => Some(pg_sys::Datum::from(value.as_ptr().cast_mut())),
            Returned::Number => value.first().map(|number| pg_sys::Datum::from(*number)),
        }
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.words.shrink_to(KEPT);
        self.starts.clear();
        self.taken = 0;
    }
}

/// What EXPLAIN shows of a node.
pub(crate) struct Explanation<'e> {
    state: *mut pg_sys::ExplainState,
    lifetime: PhantomData<&'e mut pg_sys::ExplainState>,
}

impl Explanation<'_> {
    /// # Safety
    /// `state` is that of a running EXPLAIN, which nobody else uses for as long as this lives.
    pub(super) unsafe fn from_raw(state: *mut pg_sys::ExplainState) -> Self {
        Explanation { state, lifetime: PhantomData }
    }

    /// Adds a line of text, in the encoding of the database.
    pub(crate) fn text(&mut self, label: &CStr, value: &CStr) {
        // SAFETY: a running EXPLAIN; the server copies both strings.
        unsafe { pg_sys::ExplainPropertyText(label.as_ptr(), value.as_ptr(), self.state) }
    }

    /// Adds a line of several texts.
    pub(crate) fn list(&mut self, label: &CStr, values: &[CString]) {
        // SAFETY: a running EXPLAIN; the server copies the label and the strings, of which the list has copies of the server's.
        unsafe {
            let copies = values.iter().fold(std::ptr::null_mut(), |list, value| {
                pg_sys::lappend(list, pg_sys::pstrdup(value.as_ptr()).cast())
            });
            pg_sys::ExplainPropertyList(label.as_ptr(), copies, self.state);
        }
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, label: &CStr, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        // SAFETY: a running EXPLAIN; the server copies the label.
        unsafe {
            pg_sys::ExplainPropertyInteger(label.as_ptr(), std::ptr::null(), value, self.state);
        }
    }

    /// Whether everything is to be shown.
    pub(crate) fn is_verbose(&self) -> bool {
        // SAFETY: a running EXPLAIN.
        unsafe { (*self.state).verbose }
    }

    /// Whether the plan has been executed.
    pub(crate) fn is_analyze(&self) -> bool {
        // SAFETY: a running EXPLAIN.
        unsafe { (*self.state).analyze }
    }
}
