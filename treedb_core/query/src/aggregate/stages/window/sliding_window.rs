//! An accumulator over sliding windows, with the two-stack algorithm: each document is added a few times at most, however
//! wide the windows are.
//!
//! Nothing is ever subtracted, because that would lose precision in sums of doubles. The front stack has the states of
//! all suffixes of the documents up to some point, the back state has the documents after it; a window is a suffix merged
//! with the back state.

use std::ops::Range;

use crate::doc::OwnedValue;
use crate::error::Result;

use crate::aggregate::accumulator::{Accumulator, State};

/// The argument of an accumulator for one document: a value and, for accumulators that sort, the sort key.
pub(super) type Argument = (Option<OwnedValue>, Option<Vec<u8>>);

/// The results of an accumulator, one for each window over `arguments`.
pub(super) fn over_windows(
    accumulator: &Accumulator,
    arguments: &[Argument],
    windows: &[Range<usize>],
) -> Result<Vec<Option<OwnedValue>>> {
    let forward =
        windows.windows(2).all(|pair| matches!(pair, [a, b] if a.start <= b.start && a.end <= b.end));
    if forward && accumulator.is_constant_size() {
        return two_stacks(accumulator, arguments, windows);
    }
    let from_start = forward && windows.iter().all(|window| window.start == 0);
    let (mut state, mut taken) = (accumulator.start(), 0);
    let mut all = Vec::with_capacity(windows.len());
    for window in windows {
        if !from_start {
            (state, taken) = (accumulator.start(), window.start);
        }
        add(accumulator, &mut state, arguments.get(taken..window.end).unwrap_or_default())?;
        taken = window.end;
        all.push(owned(
            accumulator,
            if from_start { state.clone() } else { std::mem::replace(&mut state, accumulator.start()) },
        ));
    }
    Ok(all)
}

fn add(accumulator: &Accumulator, state: &mut State, arguments: &[Argument]) -> Result<()> {
    for (value, key) in arguments {
        accumulator.add(state, value.as_ref().map(OwnedValue::value), key.clone())?;
    }
    Ok(())
}

fn owned(accumulator: &Accumulator, state: State) -> Option<OwnedValue> {
    accumulator.result(state, |found| found.map(OwnedValue::from_value))
}

fn two_stacks(
    accumulator: &Accumulator,
    arguments: &[Argument],
    windows: &[Range<usize>],
) -> Result<Vec<Option<OwnedValue>>> {
    // The state of the documents from each one in the window up to `mid`, last first; the state of those after `mid`.
    let (mut suffixes, mut mid): (Vec<State>, usize) = (Vec::new(), 0);
    let (mut back, mut taken) = (accumulator.start(), 0);
    let mut all = Vec::with_capacity(windows.len());
    for window in windows {
        if window.start >= mid {
            // All suffixes begin before the window: they are built anew from this window.
            suffixes.clear();
            mid = window.end;
            for argument in arguments.get(window.clone()).unwrap_or_default().iter().rev() {
                let mut state = accumulator.start();
                add(accumulator, &mut state, std::slice::from_ref(argument))?;
                if let Some(next_suffix) = suffixes.last() {
                    accumulator.merge(&mut state, next_suffix.clone())?;
                }
                suffixes.push(state);
            }
            (back, taken) = (accumulator.start(), window.end);
        } else if window.end > taken {
            add(accumulator, &mut back, arguments.get(taken..window.end).unwrap_or_default())?;
            taken = window.end;
        }
        let front = mid.checked_sub(window.start + 1).and_then(|at| suffixes.get(at));
        let mut state = front.cloned().unwrap_or_else(|| accumulator.start());
        accumulator.merge(&mut state, back.clone())?;
        all.push(owned(accumulator, state));
    }
    Ok(all)
}
