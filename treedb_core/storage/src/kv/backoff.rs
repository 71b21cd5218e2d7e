//! Random waits between attempts of a transaction that conflicts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The longest first wait, and how often it doubles.
const FIRST: Duration = Duration::from_micros(50);
const DOUBLINGS: u32 = 7;

/// Sleeps before attempt number `retry` (from 0) of a transaction that failed with a conflict: up to 50 µs, doubled with
/// each retry up to some milliseconds. The time is random, between half of that and all of it, so that two transactions
/// that conflicted do not meet again.
pub fn backoff(retry: u32) {
    let longest = FIRST * 2u32.pow(retry.min(DOUBLINGS));
    let part = RandomState::new().hash_one(retry) % 1000;
    std::thread::sleep(longest / 2 + longest.mul_f64(part as f64 / 2000.0));
}
