//! Statistics of the values in a collection's documents, for estimates of how many documents match a filter.
//!
//! They are made from a sample of the documents, path by path, and count what an index on the path would have as keys: an
//! array counts with each of its different elements, a missing field as null. So a condition becomes ranges of keys, as
//! the planner makes them for an index, and the statistics tell which share of the documents has a key in them.
//!
//! | file | what it holds |
//! |---|---|
//! | `sample` | [`Statistics::of_sample`]: from documents to statistics |
//! | `path` | [`PathStatistics`]: the values at one path; as a document, which is how they are stored |

mod path;
mod sample;

use std::collections::HashMap;

pub use path::PathStatistics;
pub use sample::Sample;

/// Statistics of the documents of a collection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Statistics {
    paths: HashMap<String, PathStatistics>,
}

impl Statistics {
    /// The statistics of the values at a path; `None` if there are none.
    pub fn at(&self, path: &str) -> Option<&PathStatistics> {
        self.paths.get(path)
    }

    /// The paths with statistics, in no order.
    pub fn paths(&self) -> impl Iterator<Item = &PathStatistics> {
        self.paths.values()
    }
}

impl FromIterator<PathStatistics> for Statistics {
    fn from_iter<I: IntoIterator<Item = PathStatistics>>(paths: I) -> Self {
        Statistics { paths: paths.into_iter().map(|one| (one.path.clone(), one)).collect() }
    }
}
