//! Requests to servers: how many a second, how long they take, and the processor time of the server, of several sides that take turns.

use crate::Result;
use crate::comparison::{Samples, Unit};
use crate::report::{Goals, Row, rows};
use crate::server::Done;

/// One side of a comparison.
pub(super) struct Side<'a> {
    /// Its name in tables.
    pub(super) name: &'static str,
    /// Does the work of round `n`.
    pub(super) work: Box<dyn FnMut(u64) -> Result<Done> + 'a>,
}

/// What a side has measured, a value per round.
pub(super) struct Measured {
    /// Operations per second.
    pub(super) per_second: Samples,
    /// The percentile of a request, in microseconds.
    pub(super) percentile: Samples,
    /// The processor time of the server per operation, in microseconds, if there is a server.
    pub(super) server_cpu: Option<Samples>,
}

/// Runs one warm-up round and then `rounds` rounds, in each of which the sides take turns in an order that rotates.
///
/// # Errors
/// That of a side.
pub(super) fn measure(rounds: u64, percent: usize, sides: &mut [Side<'_>]) -> Result<Vec<Measured>> {
    let samples = |name| Samples { name, rounds: Vec::new() };
    let empty = |side: &Side<'_>| Measured {
        per_second: samples(side.name),
        percentile: samples(side.name),
        server_cpu: None,
    };
    let mut measured: Vec<Measured> = sides.iter().map(empty).collect();
    for round in 0..=rounds {
        for i in 0..sides.len() {
            let at = (i + round as usize) % sides.len();
            let (side, measured) = (&mut sides[at], &mut measured[at]);
            let done = (side.work)(round).map_err(|error| format!("{}: {error}", side.name))?;
            if round > 0 {
                let ops = done.ops.max(1) as f64;
                measured.per_second.rounds.push(ops / done.time.as_secs_f64());
                measured.percentile.rounds.push(done.percentile(percent).as_secs_f64() * 1e6);
                if let Some(cpu) = done.server_cpu {
                    let samples = measured.server_cpu.get_or_insert_with(|| samples(side.name));
                    samples.rounds.push(cpu as f64 / ops / 1e3);
                }
            }
        }
    }
    Ok(measured)
}

/// Rows that compare the throughput of the first side with that of each other one.
pub(super) fn throughput(
    name: &str,
    durability: &'static str,
    sides: &[&Measured],
    goals: Goals<'_>,
) -> Vec<Row> {
    let samples = sides.iter().map(|side| side.per_second.clone()).collect();
    rows(name, durability, Unit::OpsPerSecond, samples, goals)
}

/// The same for the percentile of a request; `what` is its name.
pub(super) fn latency(
    name: &str,
    what: &str,
    durability: &'static str,
    sides: &[&Measured],
    goals: Goals<'_>,
) -> Vec<Row> {
    let samples = sides.iter().map(|side| side.percentile.clone()).collect();
    rows(&format!("{name}: {what}"), durability, Unit::Microseconds, samples, goals)
}

/// The same for the processor time of the sides that have a server.
pub(super) fn server_cpu(
    name: &str,
    durability: &'static str,
    sides: &[&Measured],
    goals: Goals<'_>,
) -> Vec<Row> {
    let samples = sides.iter().filter_map(|side| side.server_cpu.clone()).collect();
    cpu_rows(name, durability, samples, goals)
}

/// Rows of such processor times.
pub(super) fn cpu_rows(
    name: &str,
    durability: &'static str,
    samples: Vec<Samples>,
    goals: Goals<'_>,
) -> Vec<Row> {
    let name = format!("{name}: processor time per operation");
    rows(&name, durability, Unit::Microseconds, samples, goals)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server::Beginning;

    #[test]
    fn sides_take_turns_and_the_warm_up_round_does_not_count() {
        let order = std::cell::RefCell::new(Vec::new());
        let order_of_turns = &order;
        let side = |name| Side {
            name,
            work: Box::new(move |round| {
                order_of_turns.borrow_mut().push(name);
                let took = Duration::from_millis(10 * (round + 1));
                Beginning::now(None)?.done_in(took, vec![vec![1_000_000, 3_000_000]])
            }),
        };
        let measured = measure(2, 99, &mut [side("a"), side("b")]).unwrap();
        assert_eq!(*order.borrow(), ["a", "b", "b", "a", "a", "b"]);
        assert_eq!(measured[1].per_second.rounds, [100.0, 2.0 / 0.03]);
        assert_eq!(measured[1].percentile.rounds, [3_000.0, 3_000.0]);
        let sides: Vec<&Measured> = measured.iter().collect();
        assert_eq!(throughput("w", "none", &sides, &[]).len(), 1);
        assert_eq!(server_cpu("w", "none", &sides, &[]).len(), 0);
    }
}
