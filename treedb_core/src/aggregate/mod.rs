//! Aggregation pipeline, over [`crate::access`]. Not built yet; the folder marks the layer's place.
