//! Documents: BSON views, JSON, dotted paths, order-preserving keys.
