//! What `treedb.check` reports of an index, of whichever access method.

/// No more problems than these are reported for one index.
const MOST: usize = 100;

/// What is wrong with an index.
pub(crate) struct Problems {
    name: String,
    messages: Vec<String>,
}

impl Problems {
    /// Nothing yet, of the index with this name.
    pub(crate) fn of(name: String) -> Problems {
        Problems { name, messages: Vec::new() }
    }

    /// Nothing yet, of the same index.
    pub(crate) fn none_yet(&self) -> Problems {
        Problems::of(self.name.clone())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn append(&mut self, mut more: Problems) {
        self.messages.append(&mut more.messages);
    }

    pub(crate) fn report(&mut self, what: impl FnOnce() -> String) {
        if self.messages.len() < MOST {
            self.messages.push(format!("{}: {}", self.name, what()));
        }
    }

    /// The messages, each with the index's name.
    pub(crate) fn into_messages(self) -> Vec<String> {
        self.messages
    }
}
