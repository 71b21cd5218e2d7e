//! [`Counters`]: the work a query has done.

/// Work done by a query so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Index entries examined.
    pub keys_examined: u64,
    /// Documents examined.
    pub docs_examined: u64,
    /// Documents returned.
    pub returned: u64,
}
