//! Dotted paths through documents and arrays, with MongoDB's rules.
//!
//! `a.b` leads through a document `a` to its field `b`, and through an array `a` to field `b` of each document in
//! it. A part that is a number also selects the element of an array at that position; names of that form in the
//! documents of the array are found too. An array at the end of the path stands for its elements and for itself.

use std::fmt;

use super::value::{Doc, Element, Value};

/// A dotted path, taken apart once.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    text: String,
    parts: Vec<Part>,
}

/// One part of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    /// The name of a field.
    pub name: String,
    /// The position in an array, where the name is a decimal number without leading zeros.
    pub position: Option<usize>,
}

impl Part {
    fn new(name: &str) -> Self {
        let canonical =
            name == "0" || !name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit());
        Part { name: name.to_owned(), position: if canonical { name.parse().ok() } else { None } }
    }

    /// The element this part selects: a field of a document, an element of an array.
    fn of<'a>(&self, value: Value<'a>) -> Option<Element<'a>> {
        match value {
            Value::Document(doc) => doc.find(self.name.as_bytes()),
            Value::Array(array) => array.at(self.position?),
            _ => None,
        }
    }
}

/// True for a part of a path that stored documents do not have, behind its first part: it begins with `$`, and is not one of a DBRef.
pub(crate) fn is_dollar_prefixed(part: &str) -> bool {
    part.starts_with('$') && !matches!(part, "$id" | "$ref" | "$db")
}

impl Path {
    /// The path written as `text`, parts separated by dots.
    pub fn new(text: &str) -> Self {
        Path { text: text.to_owned(), parts: text.split('.').map(Part::new).collect() }
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its parts; there is at least one.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The first part: the field of the document itself.
    pub fn first(&self) -> &str {
        self.parts.first().map_or("", |part| part.name.as_str())
    }

    /// True if a part may select an element of an array by position.
    pub fn has_positions(&self) -> bool {
        self.parts.iter().any(|part| part.position.is_some())
    }

    /// True if both are the same, or one leads through the other.
    pub fn overlaps(&self, other: &Path) -> bool {
        self.parts.iter().zip(&other.parts).all(|(a, b)| a.name == b.name)
    }

    /// Shows `visit` every value the path leads to in `doc`: `None` for each place where it leads to nothing.
    /// An array at the end is shown element by element and then itself if `expand`, otherwise only itself.
    /// Stops, and returns true, as soon as `visit` returns true.
    pub fn visit<'a>(
        &self,
        doc: Doc<'a>,
        expand: bool,
        visit: &mut dyn FnMut(Option<Value<'a>>) -> bool,
    ) -> bool {
        walk(doc, &self.parts, expand, None, &mut |value, _| visit(value))
    }

    /// [`Path::visit`], telling for each value its position in the outermost array that was not entered by position.
    pub fn visit_positions<'a>(
        &self,
        doc: Doc<'a>,
        expand: bool,
        visit: &mut dyn FnMut(Option<Value<'a>>, Option<usize>) -> bool,
    ) -> bool {
        walk(doc, &self.parts, expand, None, &mut |value, at| visit(value, at))
    }

    /// The value at the path, going through documents only.
    pub fn get<'a>(&self, doc: Doc<'a>) -> Option<Value<'a>> {
        let (last, through) = self.parts.split_last()?;
        let mut doc = doc;
        for part in through {
            match doc.get(&part.name)? {
                Value::Document(inner) => doc = inner,
                _ => return None,
            }
        }
        doc.get(&last.name)
    }

    /// The element at the path, going through documents by name and through arrays by position.
    pub fn select<'a>(&self, doc: Doc<'a>) -> Option<Element<'a>> {
        let (first, rest) = self.parts.split_first()?;
        let mut found = doc.find(first.name.as_bytes())?;
        for part in rest {
            found = part.of(found.value())?;
        }
        Some(found)
    }

    /// [`Path::select`] in a value, which may be an array itself.
    pub fn select_in<'a>(&self, value: Value<'a>) -> Option<Element<'a>> {
        let (first, rest) = self.parts.split_first()?;
        let mut found = first.of(value)?;
        for part in rest {
            found = part.of(found.value())?;
        }
        Some(found)
    }
}

impl From<&str> for Path {
    fn from(text: &str) -> Self {
        Path::new(text)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

fn walk<'a, V: FnMut(Option<Value<'a>>, Option<usize>) -> bool>(
    doc: Doc<'a>,
    parts: &[Part],
    expand: bool,
    at: Option<usize>,
    visit: &mut V,
) -> bool {
    let Some((part, rest)) = parts.split_first() else { return false };
    let Some(element) = doc.find(part.name.as_bytes()) else { return visit(None, at) };
    match element.value() {
        Value::Array(array) if rest.is_empty() && expand => {
            let mut elements = array.elements().enumerate();
            elements.any(|(own, element)| visit(Some(element.value()), at.or(Some(own))))
                || visit(Some(Value::Array(array)), at)
        }
        value if rest.is_empty() => visit(Some(value), at),
        Value::Document(inner) => walk(inner, rest, expand, at, visit),
        Value::Array(array) => walk_array(array, rest, expand, at, visit),
        _ => visit(None, at),
    }
}

fn walk_array<'a, V: FnMut(Option<Value<'a>>, Option<usize>) -> bool>(
    array: Doc<'a>,
    parts: &[Part],
    expand: bool,
    at: Option<usize>,
    visit: &mut V,
) -> bool {
    let Some((part, rest)) = parts.split_first() else { return false };
    let selected = part.position.filter(|&position| array.at(position).is_some());
    for (own, element) in array.elements().enumerate() {
        let value = element.value();
        // A position that exists takes the part's place: a document then only counts if it has the name as well.
        if let Value::Document(inner) = value
            && (selected.is_none() || inner.find(part.name.as_bytes()).is_some())
            && walk(inner, parts, expand, at.or(Some(own)), visit)
        {
            return true;
        }
        if selected == Some(own) {
            let stop = match value {
                _ if rest.is_empty() => visit(Some(value), at),
                Value::Document(inner) => walk(inner, rest, expand, at, visit),
                Value::Array(inner) => walk_array(inner, rest, expand, at, visit),
                _ => false,
            };
            if stop {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::display::DisplayValue;
    use bson::{RawDocumentBuf, rawdoc};

    fn found(doc: &RawDocumentBuf, path: &str) -> String {
        let mut all = Vec::new();
        Path::new(path).visit(doc.into(), true, &mut |value| {
            all.push(value.map_or("-".to_owned(), |value| DisplayValue(value).to_string()));
            false
        });
        all.join(" ")
    }

    #[test]
    fn paths_lead_through_documents_and_arrays_as_in_mongodb() {
        for (doc, path, expected) in [
            (rawdoc! { "a": 5 }, "a", "5"),
            (rawdoc! { "a": 5 }, "b", "-"),
            (rawdoc! { "a": 5 }, "a.b", "-"),
            (rawdoc! { "a": { "b": 5 } }, "a.b", "5"),
            (rawdoc! { "a": [1, 2] }, "a", "1 2 [ 1, 2 ]"),
            (rawdoc! { "a": [] }, "a", "[]"),
            (rawdoc! { "a": [1, 2] }, "a.b", ""),
            (rawdoc! { "a": [] }, "a.b", ""),
            (rawdoc! { "a": [{ "b": 1 }, { "c": 2 }, 3] }, "a.b", "1 -"),
            (rawdoc! { "a": [{ "b": [1, 2] }] }, "a.b", "1 2 [ 1, 2 ]"),
            (rawdoc! { "a": [[{ "b": 1 }]] }, "a.b", ""),
            (rawdoc! { "a": [[{ "b": 1 }]] }, "a.0.b", "1"),
            (rawdoc! { "a": [5, [2, 4]] }, "a.1", "[ 2, 4 ]"),
            (rawdoc! { "a": [5, [2, 4]] }, "a.1.0", "2"),
            (rawdoc! { "a": [5] }, "a.0", "5"),
            (rawdoc! { "a": [5] }, "a.1", ""),
            (rawdoc! { "a": [{ "b": 1 }] }, "a.0.b", "1"),
            (rawdoc! { "a": [{ "0": 1 }] }, "a.0", "1 { 0: 1 }"),
            (rawdoc! { "a": { "0": 7 } }, "a.0", "7"),
            (rawdoc! { "a": [{ "b": 1 }] }, "a.3", "-"),
        ] {
            let shown = found(&doc, path).replace("[ ]", "[]");
            assert_eq!(shown, expected, "{path} in {:?}", Doc::from(&doc));
        }
    }

    #[test]
    fn a_selection_is_one_value_by_names_and_positions() {
        let doc = rawdoc! { "a": { "b": [5, { "c": "x" }] } };
        let at = |path: &str| {
            Path::new(path).select(Doc::from(&doc)).map(|found| DisplayValue(found.value()).to_string())
        };
        assert_eq!(at("a.b.1.c").as_deref(), Some("\"x\""));
        assert_eq!(at("a.b.0").as_deref(), Some("5"));
        for path in ["a.b.c", "a.b.2", "a.x", "a.b.0.c", ""] {
            assert_eq!(at(path), None, "{path}");
        }
        let inner = Path::new("a.b").select(Doc::from(&doc)).unwrap();
        assert!(Path::new("1.c").select_in(inner.value()).is_some());
    }

    #[test]
    fn only_plain_numbers_are_positions() {
        let positions: Vec<_> = Path::new("0.12.01.x.-1.99999999999999999999").parts().to_vec();
        let positions: Vec<_> = positions.iter().map(|part| part.position).collect();
        assert_eq!(positions, [Some(0), Some(12), None, None, None, None]);
    }
}
