//! Sides that take turns.
//!
//! A shared machine is faster in one second than in the next. So each round runs every side once, in an order that
//! rotates, and a ratio is the median over rounds of the ratio *within* a round; nothing is ever compared across
//! runs.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Result;
use crate::report::THE_GOAL;

/// What a turn's time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// As it passes: work of background threads counts as far as it holds the turn up.
    Wall,
    /// The processor's, of the thread whose turn it is: what to look at on a machine with other work, but blind to
    /// waits and to background threads. Work of several threads is measured by the wall clock all the same.
    Thread,
}

impl Clock {
    /// `BENCH_CLOCK=thread`, or the wall clock.
    pub fn chosen() -> Clock {
        match std::env::var("BENCH_CLOCK").as_deref() {
            Ok("thread") => Clock::Thread,
            _ => Clock::Wall,
        }
    }

    fn now(self) -> Duration {
        let of = match self {
            Clock::Wall => ClockId::Monotonic,
            Clock::Thread => ClockId::ThreadCPUTime,
        };
        let now = clock_gettime(of);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }
}

/// One side's turn.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Operations done.
    pub ops: u64,
    /// What they took: nanoseconds, setting up not included, or bytes.
    pub spent: u64,
    /// A checksum over everything the operations returned; all sides that have one must have the same in the same
    /// round.
    pub answer: Option<u64>,
}

impl Turn {
    /// Times `work` of one thread, which does `ops` operations and returns their answer, by the clock chosen.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn single(ops: u64, work: impl FnOnce() -> Result<u64>) -> Result<Turn> {
        let clock = Clock::chosen();
        let start = clock.now();
        let answer = work()?;
        Ok(Turn { ops, spent: (clock.now() - start).as_nanos() as u64, answer: Some(answer) })
    }

    /// Times `work`, which does `ops` operations and returns their answer.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn timed(ops: u64, work: impl FnOnce() -> Result<u64>) -> Result<Turn> {
        let start = Instant::now();
        let answer = work()?;
        Ok(Turn { ops, spent: start.elapsed().as_nanos() as u64, answer: Some(answer) })
    }
}

/// A side: what it is called, and its turn in round `n`.
pub struct Side<'a> {
    /// Name in tables.
    pub name: &'static str,
    /// Does the work of a round.
    pub turn: Box<dyn FnMut(u64) -> Result<Turn> + 'a>,
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds an operation: less is better.
    NanosPerOp,
    /// Microseconds, where one thing is measured: less is better.
    Microseconds,
    /// Operations a second: more is better.
    OpsPerSecond,
    /// Bytes on the disk for each document: less is better.
    BytesPerDocument,
}

impl Unit {
    /// As printed.
    pub fn label(self) -> &'static str {
        match self {
            Unit::NanosPerOp => "ns/op",
            Unit::Microseconds => "us",
            Unit::OpsPerSecond => "ops/s",
            Unit::BytesPerDocument => "B/doc",
        }
    }

    /// True if a smaller figure is the better one.
    pub fn less_is_better(self) -> bool {
        self != Unit::OpsPerSecond
    }

    fn of(self, turn: &Turn) -> f64 {
        let (spent, ops) = (turn.spent.max(1) as f64, turn.ops.max(1) as f64);
        match self {
            Unit::NanosPerOp | Unit::BytesPerDocument => spent / ops,
            Unit::Microseconds => spent / ops / 1e3,
            Unit::OpsPerSecond => ops * 1e9 / spent,
        }
    }
}

/// One side's figures over all rounds.
#[derive(Debug, Clone)]
pub struct Figures {
    /// The side's name.
    pub name: &'static str,
    /// One figure a round.
    pub rounds: Vec<f64>,
}

impl Figures {
    /// The median.
    pub fn median(&self) -> f64 {
        median(&self.rounds)
    }

    /// A figure to reach, as a side: see [`crate::report::THE_GOAL`].
    pub fn to_reach(figure: f64) -> Figures {
        Figures { name: THE_GOAL, rounds: vec![figure] }
    }

    /// The least and the most.
    pub fn spread(&self) -> (f64, f64) {
        let least = self.rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.rounds.iter().copied().fold(0.0, f64::max);
        (least, most)
    }
}

/// The median of some figures; 0 of none.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mid = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[mid],
        _ => (sorted[mid - 1] + sorted[mid]) / 2.0,
    }
}

/// Runs `rounds` rounds after one that does not count. The first side is TreeDB.
///
/// # Errors
/// A side's error, or an answer that differs from TreeDB's.
pub fn contest(unit: Unit, rounds: u64, sides: &mut [Side<'_>]) -> Result<Vec<Figures>> {
    let mut figures: Vec<Figures> =
        sides.iter().map(|s| Figures { name: s.name, rounds: Vec::new() }).collect();
    for round in 0..=rounds {
        let mut answers = vec![None; sides.len()];
        for i in 0..sides.len() {
            let at = (i + round as usize) % sides.len();
            let turn = (sides[at].turn)(round).map_err(|e| format!("{}: {e}", sides[at].name))?;
            answers[at] = turn.answer;
            if round > 0 {
                figures[at].rounds.push(unit.of(&turn));
            }
        }
        for (side, theirs) in sides.iter().zip(&answers) {
            if let (Some(ours), Some(theirs)) = (answers[0], theirs)
                && ours != *theirs
            {
                return Err(format!("{} answered {theirs:016x}, TreeDB {ours:016x}", side.name).into());
            }
        }
    }
    Ok(figures)
}

/// A running checksum over answers.
#[derive(Debug, Clone, Copy)]
pub struct Answer(u64);

impl Default for Answer {
    fn default() -> Self {
        Answer(0xcbf2_9ce4_8422_2325)
    }
}

impl Answer {
    /// Adds bytes, eight at a time.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let last = rest.iter().rev().fold(0u64, |all, b| all << 8 | u64::from(*b));
        self.word(last ^ (bytes.len() as u64) << 56);
    }

    /// Adds the first 8 bytes and the length: all that a timed loop can afford to look at.
    #[inline]
    pub fn glance(&mut self, value: &[u8]) {
        self.light(first_word(value) ^ (value.len() as u64) << 48);
    }

    /// Adds the ends of a key, and the beginning of its value, at the same price.
    #[inline]
    pub fn pass(&mut self, key: &[u8], value: &[u8]) {
        let last = key.last_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
        self.light(first_word(key) ^ last.rotate_left(29));
        self.glance(value);
    }

    /// Adds a key and a value, every byte.
    #[inline]
    pub fn pair(&mut self, key: &[u8], value: &[u8]) {
        self.add(key);
        self.add(value);
    }

    /// Two cycles, where [`Answer::word`] has five and is waited for.
    #[inline]
    fn light(&mut self, word: u64) {
        self.0 = self.0.rotate_left(5).wrapping_add(word);
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    /// The checksum.
    pub fn finish(self) -> u64 {
        self.0
    }
}

/// The first 8 bytes; 0 of fewer.
#[inline]
fn first_word(bytes: &[u8]) -> u64 {
    bytes.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &'static str, answer: u64) -> Side<'static> {
        let turn = move |_| Ok(Turn { ops: 10, spent: 100, answer: Some(answer) });
        Side { name, turn: Box::new(turn) }
    }

    #[test]
    fn a_side_with_another_answer_ends_the_run() {
        assert!(contest(Unit::NanosPerOp, 2, &mut [side("a", 1), side("b", 2)]).is_err());
        let figures = contest(Unit::NanosPerOp, 3, &mut [side("a", 1), side("b", 1)]).unwrap();
        assert_eq!(figures[1].rounds, [10.0; 3]);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn answers_depend_on_every_byte_and_length() {
        let of = |bytes: &[u8]| {
            let mut answer = Answer::default();
            answer.add(bytes);
            answer.finish()
        };
        assert_ne!(of(b""), of(b"\0"));
        assert_ne!(of(b"12345678"), of(b"123456789"));
        assert_ne!(of(b"12345678\0"), of(b"12345678\0\0"));
    }
}
