#!/usr/bin/env bash
# Checks with clippy, without warnings, that the extension compiles for the versions of PostgreSQL that it supports
# besides the one whose headers are installed: for 18 with the headers that its suites use, for 16 and 17 with the
# bindings that are published with pgrx, which saves installing them (`make pg-others` does).
#
#   scripts/pg_types.sh [MAJOR..]          default: 16 17 18
set -euo pipefail
cd "$(dirname "$0")/.."
versions=("$@")
[ ${#versions[@]} -gt 0 ] || versions=(16 17 18)

check() { cargo clippy -p treedb_pg --all-targets --no-default-features --features "pg$1" -- -D warnings; }

for major in "${versions[@]}"; do
    case $major in
        16 | 17)
            # As on docs.rs, where nothing is installed either: no bindings are generated, and the wrapper makes the
            # one crate that has them use the published ones.
            DOCS_RS=1 RUSTC_WRAPPER=$PWD/scripts/pg/published_bindings.sh check "$major" ;;
        *)
            PGRX_PG_CONFIG_PATH=$(scripts/pg/server.sh "$major")
            export PGRX_PG_CONFIG_PATH
            check "$major" ;;
    esac
    echo "the extension compiles for PostgreSQL $major"
done
