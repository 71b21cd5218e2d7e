//! States of accumulators as bytes, for groups that several processes make together.
//!
//! Only those whose result does not depend on the order of the documents have a byte form: nobody knows in which order the
//! parts of a scan come. A state is read into a new one of the same accumulator, which says what the bytes are:
//!
//! | state | bytes |
//! |---|---|
//! | sum, deviation | as [`Sum::put`] and [`Deviation::put`] write them |
//! | one value | u8: whether there is one; the value |
//! | ranked values | u32: how many; for each its sort key (a string) and the value |
//! | numbers | u32: how many; f64 each |
//!
//! A value is its BSON type (u8) and its BSON (a string).

use crate::doc::value::kind;
use crate::doc::{Element, OwnedValue};
use crate::query::byte_form::{put_bytes, put_string, take, take_string};
use crate::query::expr::stats::{Deviation, Sum};

use super::accumulator::State;

impl State {
    /// Appends the state as bytes; false if it has no byte form.
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> bool {
        match self {
            State::Sum(sum) => sum.put(out),
            State::Deviation(deviation) => deviation.put(out),
            State::One(value) => {
                put_bytes(out, [u8::from(value.is_some())]);
                value.iter().for_each(|value| put_value(value, out));
            }
            State::Ranked(ranked) => {
                put_bytes(out, (ranked.len() as u32).to_le_bytes());
                for (key, value) in ranked {
                    put_string(out, key);
                    put_value(value, out);
                }
            }
            State::Numbers(numbers) => {
                put_bytes(out, (numbers.len() as u32).to_le_bytes());
                numbers.iter().for_each(|number| put_bytes(out, number.to_le_bytes()));
            }
            State::First(_) | State::List(_) | State::Set(_) | State::Fields(_) | State::Queue(_) => {
                return false;
            }
        }
        true
    }

    /// Takes a state of the same accumulator off the front of `bytes`; `self` is a new one.
    pub(crate) fn take(&self, bytes: &mut &[u8]) -> Option<State> {
        Some(match self {
            State::Sum(_) => State::Sum(Sum::take(bytes)?),
            State::Deviation(_) => State::Deviation(Deviation::take(bytes)?),
            State::One(_) => match take(bytes)? {
                [0] => State::One(None),
                _ => State::One(Some(take_value(bytes)?)),
            },
            State::Ranked(_) => {
                let mut ranked = Vec::new();
                for _ in 0..u32::from_le_bytes(take(bytes)?) {
                    ranked.push((take_string(bytes)?.to_vec(), take_value(bytes)?));
                }
                State::Ranked(ranked)
            }
            State::Numbers(_) => {
                let mut numbers = Vec::new();
                for _ in 0..u32::from_le_bytes(take(bytes)?) {
                    numbers.push(f64::from_le_bytes(take(bytes)?));
                }
                State::Numbers(numbers)
            }
            State::First(_) | State::List(_) | State::Set(_) | State::Fields(_) | State::Queue(_) => {
                return None;
            }
        })
    }

    /// Bytes that the state has allocated.
    pub(crate) fn allocated(&self) -> usize {
        let value = |value: &OwnedValue| value.size() + size_of::<OwnedValue>();
        match self {
            State::One(one) => one.as_ref().map_or(0, value),
            State::Ranked(ranked) => ranked.iter().map(|(key, one)| key.len() + value(one)).sum(),
            State::Numbers(numbers) => size_of_val(numbers.as_slice()),
            _ => 0,
        }
    }
}

fn put_value(value: &OwnedValue, out: &mut Vec<u8>) {
    let Element { kind, bytes, .. } =
        value.element().unwrap_or(Element { name: b"", kind: kind::NULL, bytes: &[] });
    put_bytes(out, [kind]);
    put_string(out, bytes);
}

fn take_value(bytes: &mut &[u8]) -> Option<OwnedValue> {
    let [kind] = take(bytes)?;
    OwnedValue::from_bytes(kind, take_string(bytes)?).ok()
}
