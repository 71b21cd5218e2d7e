//! The `treedb` command.

fn main() {}
