#!/usr/bin/env bash
# Every function that the extension's SQL names must be in the library, with its pg_finfo_ record: Postgres would
# only notice at the first call (or at CREATE FUNCTION, in the middle of CREATE EXTENSION).
#
#   scripts/pg_symbols.sh LIBRARY
set -euo pipefail
library=$1
cd "$(dirname "$0")/.."
[ -e "$library" ] || library=$OLDPWD/$library

exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort -u)
named=$(sed -n "s/.*'MODULE_PATHNAME', *'\([a-z0-9_]*\)'.*/\1/p" treedb_pg/treedb*.sql | sort -u)
missing=$(for name in $named; do
    for symbol in "$name" "pg_finfo_$name"; do
        grep -qx "$symbol" <<<"$exported" || echo "  $symbol"
    done
done)
if [ -n "$missing" ]; then
    printf 'pg_symbols: the SQL names functions that are not in %s:\n%s\n' "$library" "$missing" >&2
    exit 1
fi
unused=$(sed -n 's/^pg_finfo_\(treedb_.*\)/\1/p' <<<"$exported" | grep -vxF "$named" || true)
if [ -n "$unused" ]; then
    printf 'pg_symbols: functions in the library that no SQL names:\n%s\n' "$unused" >&2
    exit 1
fi
