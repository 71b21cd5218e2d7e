//! Documents as a table: a column for each field, in the order in which they are met.

use bson::{RawBsonRef, RawDocumentBuf};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::notation;

/// Columns of the terminal that a cell has at most.
const WIDEST: usize = 48;

/// A value in short: texts, ids and dates as they are.
fn cell(value: RawBsonRef<'_>) -> String {
    let text = match value {
        RawBsonRef::String(text) => text.to_owned(),
        RawBsonRef::ObjectId(id) => id.to_hex(),
        RawBsonRef::Int64(number) => number.to_string(),
        RawBsonRef::DateTime(date) => date.try_to_rfc3339_string().unwrap_or_else(|_| notation::value(value)),
        value => notation::value(value),
    };
    // A terminal would take control characters for orders.
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.width() <= WIDEST {
        return text;
    }
    let (mut short, mut width) = (String::new(), 1);
    for c in text.chars() {
        width += c.width().unwrap_or(0);
        if width > WIDEST {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

/// Whether a value fits into a cell: what has fields of its own does not.
fn is_flat(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Document(inner) => inner.iter().next().is_none(),
        RawBsonRef::Array(inner) => {
            inner
                .into_iter()
                .flatten()
                .all(|value| !matches!(value, RawBsonRef::Document(_) | RawBsonRef::Array(_)))
                && notation::value(value).width() <= WIDEST
        }
        _ => true,
    }
}

/// The table; `None` if some document does not fit into one: it has documents in it, or the terminal too few columns.
pub(super) fn of(documents: &[RawDocumentBuf], columns: usize) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for document in documents {
        for (name, value) in document.iter().flatten() {
            if !is_flat(value) {
                return None;
            }
            if !names.contains(&name.as_str()) {
                names.push(name.as_str());
            }
        }
    }
    if names.is_empty() {
        return None;
    }
    // Numbers stand on the right.
    let is_number = |name: &str| {
        let mut values = documents.iter().filter_map(|document| document.get(name).ok().flatten()).peekable();
        values.peek().is_some()
            && values.all(|value| {
                matches!(
                    value,
                    RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Null
                )
            })
    };
    let right: Vec<bool> = names.iter().map(|name| is_number(name)).collect();
    let mut rows: Vec<Vec<String>> = vec![names.iter().map(|name| cell(RawBsonRef::String(name))).collect()];
    for document in documents {
        let of = |name: &&str| document.get(name).ok().flatten().map_or(String::new(), cell);
        rows.push(names.iter().map(of).collect());
    }
    let widths: Vec<usize> = (0..names.len())
        .map(|column| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
        })
        .collect();
    if widths.iter().sum::<usize>() + 2 * (widths.len() - 1) > columns {
        return None;
    }
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for ((cell, width), right) in row.iter().zip(&widths).zip(&right) {
            let space = " ".repeat(width - cell.width());
            let parts =
                if *right { [space.as_str(), cell.as_str()] } else { [cell.as_str(), space.as_str()] };
            line.extend(parts);
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
        if number == 0 {
            let lines: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            text.push_str(&lines.join("  "));
            text.push('\n');
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_need_to_be_and_numbers_stand_on_the_right() {
        let documents = [
            rawdoc! { "_id": 1, "name": "日本" },
            rawdoc! { "_id": 100_i64, "tags": ["a", 1], "name": "b\u{1b}[2J" },
        ];
        let table = of(&documents, 80).unwrap();
        let expected = "_id  name   tags\n---  -----  --------\n  1  日本\n100  b [2J  [\"a\", 1]\n";
        assert_eq!(table, expected);
        let long = of(&[rawdoc! { "a": "x".repeat(100) }], 80).unwrap();
        assert!(long.ends_with(&("x".repeat(WIDEST - 1) + "…\n")), "{long}");
    }

    #[test]
    fn what_is_nested_or_too_wide_is_no_table() {
        assert_eq!(of(&[rawdoc! { "a": { "b": 1 } }], 80), None);
        assert_eq!(of(&[rawdoc! { "a": [{}] }], 80), None);
        assert_eq!(of(&[rawdoc! {}], 80), None);
        assert_eq!(of(&[rawdoc! { "a": "12345", "b": "12345" }], 11), None);
        assert!(of(&[rawdoc! { "a": "12345", "b": "12345", "c": {} }], 20).is_some());
    }
}
