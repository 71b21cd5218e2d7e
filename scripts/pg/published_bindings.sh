#!/usr/bin/env bash
# A compiler wrapper for cargo (RUSTC_WRAPPER): makes pgrx's crate of bindings use those that it is published with,
# one file for each version of PostgreSQL, as it does on docs.rs. For checks only: nothing can be linked with them.
for argument in "$@"; do
    [ "$argument" = pgrx_pg_sys ] && exec "$@" --cfg docsrs
done
exec "$@"
