//! Postings: terms to row ids. Not built yet.
