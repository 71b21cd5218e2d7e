//! What the planner has asked lately, with the answers: it asks several times about each call (for its rows, the cost of a function scan, and
//! the cost of ours), and about each filter.
//!
//! An answer counts until something changes that it may depend on: the statement, the catalogs, the settings that costs are made of, the
//! user, or what the transaction itself has written. All of them may change within one message of a client, and the server has one start of
//! a statement for all that a message has. What others write meanwhile is noticed with the next message.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::thread::LocalKey;

use super::catalog_cache::{self, Moment};
use crate::shim::filter_scan::{SearchedBy, ValueStatistics};
use crate::shim::server::{self, Premises};
use crate::shim::streamed::Estimate;

/// Answers of each kind that are kept: more than a statement with many joins and partitions asks for again and again. When there would be
/// more, all are forgotten.
const KEPT: usize = 4096;

/// The same of their bytes, with those of the questions: filters may have many values, and answers many fields. What is longer is kept alone.
pub(super) const KEPT_BYTES: usize = 1 << 20;

/// An answer that is kept.
pub(super) trait Kept: Clone {
    /// How many bytes it holds beside itself, about; what several share counts for each.
    fn held(&self) -> usize {
        0
    }
}

impl Kept for f64 {}
impl Kept for Estimate {}
impl Kept for ValueStatistics {}

impl Kept for Rc<[SearchedBy]> {
    fn held(&self) -> usize {
        let fields = |by: &SearchedBy| by.bounding.capacity() + by.tested.capacity();
        size_of_val(&**self) + self.iter().map(fields).sum::<usize>() * size_of::<usize>()
    }
}

/// Answers of one kind, with their questions.
pub(super) struct Answers<T> {
    given: Option<(Moment, Premises)>,
    known: HashMap<Vec<u8>, Option<T>>,
    /// What they take.
    bytes: usize,
}

impl<T: Kept> Answers<T> {
    pub(super) fn new() -> RefCell<Answers<T>> {
        RefCell::new(Answers { given: None, known: HashMap::new(), bytes: 0 })
    }

    fn keep(&mut self, now: (Moment, Premises), asked: Vec<u8>, answer: Option<T>) {
        let entry = size_of::<(Vec<u8>, Option<T>)>();
        let bytes = entry + asked.capacity() + answer.as_ref().map_or(0, T::held);
        let is_full = self.known.len() >= KEPT || self.bytes + bytes > KEPT_BYTES;
        if self.given != Some(now) || is_full {
            (self.given, self.bytes) = (Some(now), 0);
            self.known.clear();
        }
        self.bytes += bytes;
        self.known.insert(asked, answer);
    }
}

/// The answer to a question, made by `answer` if it is not known.
pub(super) fn once<T: Kept>(
    answers: &'static LocalKey<RefCell<Answers<T>>>,
    question: &[&[u8]],
    answer: impl FnOnce() -> Option<T>,
) -> Option<T> {
    let mut asked = Vec::new();
    for part in question {
        asked.extend_from_slice(&part.len().to_le_bytes());
        asked.extend_from_slice(part);
    }
    let now = (catalog_cache::moment(), server::premises());
    let known = answers.with_borrow(|answers| match answers.given == Some(now) {
        true => answers.known.get(&asked).cloned(),
        false => None,
    });
    if let Some(known) = known {
        return known;
    }
    let answer = answer();
    answers.with_borrow_mut(|answers| answers.keep(now, asked, answer.clone()));
    answer
}
