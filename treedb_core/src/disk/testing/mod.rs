//! For tests of several layers: damaged files.

pub(crate) mod damage;
