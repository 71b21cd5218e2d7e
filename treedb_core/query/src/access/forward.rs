//! Sources that are asked by asking another.

/// The methods of [`Source`](super::Source) that lend, count and estimate, each asked of another source:
/// `forward_source!(self => self.view())`. Those that hand out references stay to be written, since the other source
/// may not outlive the call: `indexes`, `plan_memory`, `collation`.
#[macro_export]
macro_rules! forward_source {
    ($self:ident => $source:expr) => {
        fn fetch(
            &$self,
            id: $crate::access::RowId,
            visit: &mut dyn FnMut(&$crate::bson::RawDocument) -> $crate::error::Result<()>,
        ) -> $crate::error::Result<bool> {
            $source.fetch(id, visit)
        }

        fn scan(
            &$self,
            direction: $crate::access::Direction,
            after: Option<$crate::access::RowId>,
            visit: &mut $crate::access::VisitRow<'_>,
        ) -> $crate::error::Result<()> {
            $source.scan(direction, after, visit)
        }

        fn fetch_row(
            &$self,
            id: $crate::access::RowId,
            visit: &mut dyn FnMut(&mut dyn $crate::access::Row) -> $crate::error::Result<()>,
        ) -> $crate::error::Result<bool> {
            $source.fetch_row(id, visit)
        }

        fn scan_rows(
            &$self,
            direction: $crate::access::Direction,
            after: Option<$crate::access::RowId>,
            visit: &mut $crate::access::VisitLent<'_>,
        ) -> $crate::error::Result<()> {
            $source.scan_rows(direction, after, visit)
        }

        fn index_range(
            &$self,
            index: usize,
            range: &$crate::access::KeyRange,
            direction: $crate::access::Direction,
            after: Option<(&[u8], $crate::access::RowId)>,
            visit: &mut $crate::access::VisitEntry<'_>,
        ) -> $crate::error::Result<()> {
            $source.index_range(index, range, direction, after, visit)
        }

        fn index_range_typed(
            &$self,
            index: usize,
            range: &$crate::access::KeyRange,
            direction: $crate::access::Direction,
            after: Option<(&[u8], $crate::access::RowId)>,
            visit: &mut $crate::access::VisitTypedEntry<'_>,
        ) -> $crate::error::Result<()> {
            $source.index_range_typed(index, range, direction, after, visit)
        }

        fn estimated_rows(&$self) -> u64 {
            $source.estimated_rows()
        }

        fn scratch(&$self) -> $crate::error::Result<Option<Box<dyn $crate::access::Scratch>>> {
            $source.scratch()
        }

        fn known_rows(&$self) -> $crate::error::Result<Option<u64>> {
            $source.known_rows()
        }

        fn estimate(&$self, index: usize, range: &$crate::access::KeyRange) -> Option<u64> {
            $source.estimate(index, range)
        }

        fn entries_are_exact(&$self) -> bool {
            $source.entries_are_exact()
        }
    };
}

pub use forward_source;
