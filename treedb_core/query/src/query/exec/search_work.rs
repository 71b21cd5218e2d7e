//! What a search for vectors did, for those who want to know why it took as long as it did, or found what it found.

use bson::raw::cstr;
use bson::{RawDocumentBuf, rawdoc};

use super::explain::number;
use crate::access::Comparisons;

/// How a search for vectors was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SearchWork {
    /// What led to the documents that were found.
    pub path: SearchPath,
    /// Vectors that were compared with the one that was searched for, also by their codes, those of all paths that were tried.
    pub vectors_compared: u64,
    /// Documents that were read to match them against the filter or to compare their vectors; that those which were found are read to be
    /// returned is not counted.
    pub documents_examined: u64,
    /// Why it ended.
    pub end: SearchEnd,
}

/// What leads to the documents that a search for vectors finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SearchPath {
    /// The graph of the vector index, whose rows are matched against the filter by their documents.
    #[default]
    Graph,
    /// The rows that an index finds for the filter; the vector index has compared all of them, without their documents, or with few of them
    /// where it has codes of few bits.
    MatchingRows,
    /// The graph of the vector index, for the rows that another index finds for the filter.
    GraphOfMatchingRows,
    /// The documents of the rows that an index finds for the filter.
    MatchingDocuments,
    /// All documents of the collection.
    AllDocuments,
}

/// Why a search for vectors ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SearchEnd {
    /// It had found as many as were asked for.
    #[default]
    Limit,
    /// There were no more rows in the index.
    NoMore,
    /// As many rows in a row as it looks at were beyond the distance.
    Farther,
    /// Everything that matches was compared.
    All,
    /// The graph, or codes of few bits, had led to as many of the rows that match as the search looks at, which are likely to have the
    /// nearest among them.
    Candidates,
    /// The search of the graph had looked at as many rows as it may, and too few matched; everything that matches was compared then.
    Budget,
}

impl SearchWork {
    /// Adds what a vector index has done.
    pub(super) fn add(&mut self, done: Comparisons) {
        self.vectors_compared += done.vectors;
        self.documents_examined += done.documents;
    }

    /// As `explain` shows it.
    pub fn shown(&self) -> RawDocumentBuf {
        let path = match self.path {
            SearchPath::Graph => "graph",
            SearchPath::MatchingRows => "matchingRows",
            SearchPath::GraphOfMatchingRows => "graphOfMatchingRows",
            SearchPath::MatchingDocuments => "matchingDocuments",
            SearchPath::AllDocuments => "allDocuments",
        };
        let end = match self.end {
            SearchEnd::Limit => "limit",
            SearchEnd::NoMore => "noMore",
            SearchEnd::Farther => "farther",
            SearchEnd::All => "all",
            SearchEnd::Candidates => "candidates",
            SearchEnd::Budget => "budget",
        };
        let mut shown = rawdoc! { "stage": "VECTOR_SEARCH", "path": path };
        shown.append(cstr!("vectorsCompared"), number(self.vectors_compared));
        shown.append(cstr!("documentsExamined"), number(self.documents_examined));
        shown.append(cstr!("end"), end);
        shown
    }
}
