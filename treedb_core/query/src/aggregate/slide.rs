//! An accumulator over windows that slide: each document is taken in a few times at most, however wide the windows are.
//!
//! Nothing is ever subtracted, which would lose the small parts of sums of doubles: a window is the end of what was
//! gathered from right to left when the window began anew, merged with what came in since.

use std::ops::Range;

use crate::doc::OwnedValue;
use crate::error::Result;

use super::accumulator::{Accumulator, State};

/// What an accumulator is given of one document: its value and, for those that sort, its place.
pub(super) type Argument = (Option<OwnedValue>, Option<Vec<u8>>);

/// The results of an accumulator, one for each window over `arguments`.
pub(super) fn slide(
    accumulator: &Accumulator,
    arguments: &[Argument],
    windows: &[Range<usize>],
) -> Result<Vec<Option<OwnedValue>>> {
    let forward =
        windows.windows(2).all(|pair| matches!(pair, [a, b] if a.start <= b.start && a.end <= b.end));
    if forward && accumulator.is_small() {
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
    // What the documents from each one in `base..mid` up to `mid` give, last first; what those behind give.
    let (mut ends, mut mid): (Vec<State>, usize) = (Vec::new(), 0);
    let (mut back, mut taken) = (accumulator.start(), 0);
    let mut all = Vec::with_capacity(windows.len());
    for window in windows {
        if window.start >= mid {
            // Everything gathered is behind the window: it begins anew.
            ends.clear();
            mid = window.end;
            for argument in arguments.get(window.clone()).unwrap_or_default().iter().rev() {
                let mut state = accumulator.start();
                add(accumulator, &mut state, std::slice::from_ref(argument))?;
                if let Some(behind) = ends.last() {
                    accumulator.merge(&mut state, behind.clone())?;
                }
                ends.push(state);
            }
            (back, taken) = (accumulator.start(), window.end);
        } else if window.end > taken {
            add(accumulator, &mut back, arguments.get(taken..window.end).unwrap_or_default())?;
            taken = window.end;
        }
        let front = mid.checked_sub(window.start + 1).and_then(|at| ends.get(at));
        let mut state = front.cloned().unwrap_or_else(|| accumulator.start());
        accumulator.merge(&mut state, back.clone())?;
        all.push(owned(accumulator, state));
    }
    Ok(all)
}
