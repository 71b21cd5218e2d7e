//! Arrays of doubles, such as vectors: their elements in BSON, and their values in rows.
//!
//! Most vectors are made of floats of 4 bytes, and their elements become doubles only because BSON has no others. A row has 4 bytes of each
//! element of such an array, and the doubles are computed from them.

use std::sync::LazyLock;

use treedb_vector::kernel::{spread_doubles, spread_floats};

use super::super::value::kind;
use super::encode::IndexName;

/// Fewest and most doubles of an array that is read and made by its whole [`SKELETON`].
pub(super) const FEW: usize = 8;
pub(super) const MOST: usize = 4096;

/// The elements of an array of [`MOST`] doubles, all 0: what has fewer begins with the same bytes.
static SKELETON: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let (mut skeleton, mut name) = (Vec::with_capacity(eights_len(MOST)), IndexName::default());
    for position in 0..MOST {
        skeleton.push(kind::DOUBLE);
        skeleton.extend_from_slice(name.of(position));
        skeleton.extend_from_slice(&[0; 9]);
    }
    skeleton
});

/// How many elements have names of so many digits: those of [`MOST`], and more.
const BY_DIGITS: [(usize, usize); 4] = [(1, 10), (2, 90), (3, 900), (4, 9000)];

/// Bytes of the elements of an array of so many values of 8 bytes, fewer than a million.
pub(super) fn eights_len(count: usize) -> usize {
    // A type, a zero byte and eight bytes each; a digit of each name, and another one of those from 10 on, from 100 on and so on.
    let more: usize = (1..6).map(|digits| count.saturating_sub(10usize.pow(digits))).sum();
    11 * count + more
}

/// Appends the elements of an array of at most [`MOST`] doubles.
pub(super) fn of_values(values: &[[u8; 8]], out: &mut Vec<u8>) -> Option<()> {
    elements(values, spread_doubles, out)
}

/// Appends the elements of an array of doubles that a row has 4 bytes each of; `None` if they are too many, or not whole.
pub(super) fn of_floats(floats: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (floats, []) = floats.as_chunks() else { return None };
    elements(floats, spread_floats, out)
}

/// Appends elements, those whose names have as many digits at a time, with types and names of the [`SKELETON`].
fn elements<const SIZE: usize>(
    mut values: &[[u8; SIZE]],
    spread: impl Fn(&[[u8; SIZE]], &[u8], usize, &mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Option<()> {
    if values.len() > MOST {
        return None;
    }
    out.reserve(eights_len(values.len()));
    let mut like = SKELETON.as_slice();
    for (digits, count) in BY_DIGITS {
        let (now, later) = values.split_at(values.len().min(count));
        spread(now, like, digits + 10, out);
        if later.is_empty() {
            break;
        }
        (values, like) = (later, like.get(count * (digits + 10)..)?);
    }
    Some(())
}

/// Appends 4 bytes of each element of an array if these tell all: if they are at least [`FEW`] and at most [`MOST`] doubles with the usual
/// names that are floats of 4 bytes. Otherwise it returns false, and appends nothing.
pub(super) fn put_floats(array: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(mut elements) = array.get(4..array.len().saturating_sub(1)) else { return false };
    if !(eights_len(FEW)..=eights_len(MOST)).contains(&elements.len()) {
        return false;
    }
    let (start, mut skeleton) = (out.len(), SKELETON.as_slice());
    for (digits, count) in BY_DIGITS {
        let bytes = elements.len().min(count * (digits + 10));
        let (now, later) = elements.split_at(bytes);
        let (names, later_names) = skeleton.split_at(bytes.min(skeleton.len()));
        let put = match digits {
            1 => put_values::<11>(now, names, out),
            2 => put_values::<12>(now, names, out),
            3 => put_values::<13>(now, names, out),
            _ => put_values::<14>(now, names, out),
        };
        if !put {
            out.truncate(start);
            return false;
        }
        (elements, skeleton) = (later, later_names);
    }
    true
}

/// Appends 4 bytes of each element; false if they are not all floats, or not `LEN` bytes each with the types and names of `skeleton`.
fn put_values<const LEN: usize>(elements: &[u8], skeleton: &[u8], out: &mut Vec<u8>) -> bool {
    let ((elements, []), (skeleton, [])) = (elements.as_chunks::<LEN>(), skeleton.as_chunks::<LEN>()) else {
        return false;
    };
    let from = out.len();
    out.resize(from + 4 * elements.len(), 0);
    let places = out.get_mut(from..).unwrap_or_default().as_chunks_mut::<4>().0;
    for ((element, like), place) in elements.iter().zip(skeleton).zip(places) {
        let (Some((name, value)), Some((wanted, _))) =
            (element.split_last_chunk(), like.split_last_chunk::<8>())
        else {
            return false;
        };
        match float(*value) {
            Some(float) if name == wanted => *place = float,
            _ => return false,
        }
    }
    true
}

/// The bytes of the float that a double is; `None` if it is none. What is not a number is none: its bits may be lost on the way.
#[inline]
fn float(value: [u8; 8]) -> Option<[u8; 4]> {
    let value = f64::from_le_bytes(value);
    let float = value as f32;
    (f64::from(float).to_bits() == value.to_bits() && !value.is_nan()).then(|| float.to_le_bytes())
}
