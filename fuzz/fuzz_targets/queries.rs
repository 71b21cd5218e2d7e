//! Bytes as documents, filters, updates, projections, sorts and definitions of indexes, and as JSON: parsed or refused; and what is parsed
//! can be asked of any document.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treedb_query::doc::{Doc, json, validate};
use treedb_query::index::ordered::IndexDef;
use treedb_query::index::vector::{VectorDef, query_vector};
use treedb_query::query::{Filter, Projection, Sort, Update};

fuzz_target!(|data: &[u8]| {
    let Some((&split, data)) = data.split_first() else { return };
    if split == 0 {
        let Ok(text) = std::str::from_utf8(data) else { return };
        if let Ok(document) = json::from_json(text) {
            let again = json::from_json(&json::to_json(&document)).expect("what was written is read");
            assert_eq!(json::to_json(&document), json::to_json(&again));
        }
        return;
    }
    // Two documents: one to ask, one to ask about.
    let (asked, about) = data.split_at(usize::from(split).min(data.len()));
    let (Ok(asked), Ok(about)) = (validate(asked), validate(about)) else { return };
    let filter = Filter::parse(asked);
    if let Ok(filter) = &filter {
        let _ = filter.matches(about);
        filter.position(about);
        filter.equalities();
    }
    if let Ok(update) = Update::parse(asked) {
        if let Ok(Some(changed)) = update.apply(about, &Filter::all()) {
            validate(changed.as_bytes()).expect("an update makes a valid document");
        }
        if let Ok(filter) = Filter::parse(about) {
            let _ = update.upsert(&filter);
        }
    }
    if let Ok(Some(projection)) = Projection::parse(asked)
        && let Ok(part) = projection.apply(about)
    {
        validate(part.as_bytes()).expect("a projection makes a valid document");
    }
    if let Ok(Some(sort)) = Sort::parse(asked) {
        let _ = sort.key(about);
    }
    if let Ok(index) = IndexDef::parse(asked, None, false) {
        let _ = index.keys(about);
    }
    for index in VectorDef::all_from_spec(asked).unwrap_or_default() {
        let written = VectorDef::all_from_spec(&index.spec()).expect("what was written is read");
        assert!(written.contains(&index));
        if let Ok(vectors) = index.vectors(about) {
            for (_, vector) in vectors.iter() {
                index.check_query(vector).expect("a vector of the index can be compared with others");
            }
        }
    }
    for element in Doc::from(about).elements() {
        let _ = query_vector(element.value());
    }
});
