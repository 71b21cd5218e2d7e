#!/usr/bin/env bash
# Builds the extension and installs it into one Postgres.
#
#   scripts/pg_install.sh [PG_CONFIG]      default: the pg_config on PATH
#   PROFILE=dev scripts/pg_install.sh      the development profile (default: release)
#
# Files are written beside the old ones and renamed over them: a running backend keeps the library it has mapped.
set -euo pipefail
cd "$(dirname "$0")/.."
pg_config=${1:-${PG_CONFIG:-pg_config}}
profile=${PROFILE:-release}

pg_config=$(command -v "$pg_config") || { echo "pg_install: no $1: install postgresql-server-dev-15, or name another pg_config" >&2; exit 1; }
version=$("$pg_config" --version)
case $version in
    "PostgreSQL 15."*) ;;
    *) echo "pg_install: $version is not supported: this extension is built for PostgreSQL 15" >&2; exit 1 ;;
esac
[ -e "$("$pg_config" --includedir-server)/postgres.h" ] || { echo "pg_install: no server headers for $version: install postgresql-server-dev-15" >&2; exit 1; }

export PGRX_PG_CONFIG_PATH=$pg_config
case $profile in
    dev) cargo build -q -p treedb_pg; built=debug ;;
    *) cargo build -q -p treedb_pg --profile "$profile"; built=$profile ;;
esac
target=${CARGO_TARGET_DIR:-target}
library=$target/$built/libtreedb_pg.so
scripts/pg_symbols.sh "$library"

# put FROM TO MODE: write beside, then rename over.
put() {
    install -m "$3" "$1" "$2.new.$$"
    mv -f "$2.new.$$" "$2"
}
libdir=$("$pg_config" --pkglibdir)
sharedir=$("$pg_config" --sharedir)/extension
[ -w "$libdir" ] && [ -w "$sharedir" ] || { echo "pg_install: $libdir and $sharedir are not writable: run as root, or name a pg_config of your own Postgres" >&2; exit 1; }
put "$library" "$libdir/treedb_pg.so" 755
for file in treedb_pg/treedb--*.sql treedb_pg/treedb.control; do
    put "$file" "$sharedir/${file##*/}" 644
done
echo "installed treedb into $version ($libdir)"
