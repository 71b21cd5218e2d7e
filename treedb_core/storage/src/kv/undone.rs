//! What is to be done if the changes of a transaction are undone: others keep things in memory that are about them.

/// Calls that a transaction makes unless it is committed.
#[derive(Default)]
pub(super) struct IfUndone(Vec<Box<dyn FnOnce() + Send + Sync>>);

impl std::fmt::Debug for IfUndone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("IfUndone").field(&self.0.len()).finish()
    }
}

impl IfUndone {
    pub(super) fn add(&mut self, call: impl FnOnce() + Send + Sync + 'static) {
        self.0.push(Box::new(call));
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Makes all calls but the first `kept`, the last one first.
    pub(super) fn undo(&mut self, kept: usize) {
        while self.0.len() > kept {
            self.0.pop().into_iter().for_each(|call| call());
        }
    }

    /// Gives all of them up: the changes are committed.
    pub(super) fn committed(&mut self) {
        self.0.clear();
    }
}
