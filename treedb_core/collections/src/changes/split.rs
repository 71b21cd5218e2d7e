//! `$changeStreamSplitLargeEvent`: events that are larger than a document as several documents.
//!
//! Each fragment has some of the event's fields, whole and in their order, and `splitEvent: { fragment, of }`. The resume token of every
//! fragment but the last has its number, so that a stream can continue within an event.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf, rawdoc};

use treedb_query::error::{ErrorCode, QueryError, Result};

use super::resume_token::ResumeToken;
use crate::write::change::MAX_DOCUMENT;

/// Room for the token, `splitEvent` and the document's own bytes.
const OVERHEAD: usize = 256;

/// The fragments of an event of more than `most` bytes; the event itself if it is smaller.
pub(super) fn split(event: RawDocumentBuf, most: usize) -> Result<Vec<RawDocumentBuf>> {
    if event.as_bytes().len() <= most {
        return Ok(vec![event]);
    }
    let token = ResumeToken::decode(event.get_document("_id")?)?;
    let mut parts: Vec<RawDocumentBuf> = Vec::new();
    for field in &event {
        let (name, value) = field?;
        if name.as_str() == "_id" {
            continue;
        }
        let mut alone = RawDocumentBuf::new();
        alone.append(name, value);
        let size = alone.as_bytes().len();
        if size + OVERHEAD > most {
            return Err(QueryError::new(
                ErrorCode::BSONObjectTooLarge,
                format!(
                    "$changeStreamSplitLargeEvent: the field '{}' of an event takes {size} bytes",
                    name.as_str()
                ),
            ));
        }
        match parts.last_mut().filter(|part| part.as_bytes().len() + size + OVERHEAD <= most) {
            Some(part) => part.append(name, value),
            None => parts.push(alone),
        }
    }
    let of = parts.len();
    (1..).zip(parts).map(|(fragment, part)| with_number(token, fragment, of, &part)).collect()
}

/// The splits of events by documents' size.
pub(super) fn split_large(event: RawDocumentBuf) -> Result<Vec<RawDocumentBuf>> {
    split(event, MAX_DOCUMENT)
}

fn with_number(token: ResumeToken, fragment: usize, of: usize, part: &RawDocument) -> Result<RawDocumentBuf> {
    let within = if fragment < of { u16::try_from(fragment).ok() } else { None };
    let token = ResumeToken { fragment: within, ..token };
    let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let mut whole = rawdoc! { "_id": token.encode() };
    whole.append(cstr!("splitEvent"), rawdoc! { "fragment": number(fragment), "of": number(of) });
    for field in part {
        let (name, value) = field?;
        whole.append(name, value);
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fragments_of_an_event_have_all_of_its_fields_once_and_tokens_of_their_own() {
        let token = ResumeToken { seq: 9, time: 1_700_000_000_000, invalidated: false, fragment: None };
        let long = "x".repeat(400);
        let event = rawdoc! { "_id": token.encode(), "a": 1, "b": long.as_str(), "c": long.as_str(), "d": 2 };
        assert_eq!(split(event.clone(), 2000).unwrap(), vec![event.clone()]);
        let fragments = split(event.clone(), 700).unwrap();
        let seen: Vec<Vec<&str>> = fragments
            .iter()
            .map(|one| one.iter().map(|field| field.unwrap().0.as_str()).skip(2).collect())
            .collect();
        assert_eq!(seen, [vec!["a", "b"], vec!["c", "d"]]);
        let tokens: Vec<_> = fragments
            .iter()
            .map(|one| ResumeToken::decode(one.get_document("_id").unwrap()).unwrap().fragment)
            .collect();
        assert_eq!(tokens, [Some(1), None]);
        assert!(fragments.iter().all(|one| one.as_bytes().len() <= 700));
        assert_eq!(split(event, 500).unwrap_err().code, ErrorCode::BSONObjectTooLarge);
    }
}
