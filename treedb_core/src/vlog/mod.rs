//! The value log: large values outside the tree, read as slices of the map.
