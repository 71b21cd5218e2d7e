//! hnswlib, from Debian's headers, compiled for this machine's processor.

use std::ptr::NonNull;

use super::Set;
use super::index::{CANDIDATES, LINKS, VectorIndex, VectorSearch};
use crate::Result;

/// `Index` of `hnswlib.cpp`.
#[repr(C)]
struct RawIndex {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn bench_hnswlib_build(
        vectors: *const f32,
        rows: usize,
        dimensions: usize,
        links: usize,
        candidates: usize,
    ) -> *mut RawIndex;
    fn bench_hnswlib_free(index: *mut RawIndex);
    fn bench_hnswlib_search(
        index: *mut RawIndex,
        query: *const f32,
        k: usize,
        ef: usize,
        labels: *mut u32,
    ) -> usize;
    fn bench_hnswlib_bytes(index: *const RawIndex) -> usize;
}

/// Vectors of `f32`; distances are inner products, as the sets are normalised.
pub(super) struct Hnswlib {
    index: NonNull<RawIndex>,
    dimensions: usize,
}

// SAFETY: the index belongs to this value, and hnswlib keeps nothing in threads.
unsafe impl Send for Hnswlib {}
// SAFETY: without `&mut` only sizes are read.
unsafe impl Sync for Hnswlib {}

impl Hnswlib {
    pub(super) const NAME: &'static str = "hnswlib f32";

    pub(super) fn build(set: &Set) -> Result<Box<dyn VectorIndex>> {
        let vectors: Vec<f32> = set.vectors.concat();
        let (rows, dimensions) = (set.vectors.len(), set.dimensions);
        // SAFETY: `vectors` has `rows * dimensions` elements, which are copied.
        let index = unsafe { bench_hnswlib_build(vectors.as_ptr(), rows, dimensions, LINKS, CANDIDATES) };
        let index = NonNull::new(index).ok_or("hnswlib cannot build an index")?;
        Ok(Box::new(Hnswlib { index, dimensions }))
    }
}

impl Drop for Hnswlib {
    fn drop(&mut self) {
        // SAFETY: made by `bench_hnswlib_build`, and freed once.
        unsafe { bench_hnswlib_free(self.index.as_ptr()) };
    }
}

impl VectorSearch for Hnswlib {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn search(
        &mut self,
        queries: &[Vec<f32>],
        k: usize,
        ef: usize,
        each: &mut dyn FnMut(usize, &[u32]),
    ) -> Result<()> {
        let mut rows = vec![0; k];
        for (i, query) in queries.iter().enumerate() {
            if query.len() != self.dimensions {
                return Err("a query has another number of dimensions than the index".into());
            }
            // SAFETY: the query has as many elements as the index dimensions, and `rows` has room for `k`.
            let found = unsafe {
                bench_hnswlib_search(self.index.as_ptr(), query.as_ptr(), k, ef, rows.as_mut_ptr())
            };
            each(i, &rows[..found.min(k)]);
        }
        Ok(())
    }
}

impl VectorIndex for Hnswlib {
    fn bytes(&self) -> usize {
        // SAFETY: the index is alive.
        unsafe { bench_hnswlib_bytes(self.index.as_ptr()) }
    }
}
