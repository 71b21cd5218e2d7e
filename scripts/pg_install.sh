#!/usr/bin/env bash
# Builds the extension and installs it into one Postgres.
#
#   scripts/pg_install.sh [PG_CONFIG]      default: the pg_config on PATH
#   PROFILE=dev scripts/pg_install.sh      the development profile (default: extension), with its symbols
#   PROFILE=release scripts/pg_install.sh  compiles in half the time where the server was built before; finds are 4 % slower
#   STRIP=1 PROFILE=dev scripts/pg_install.sh  without symbols all the same
#   SYMBOLS=1 scripts/pg_install.sh        the symbols beside the library, as treedb_pg.so.debug
#   DESTDIR=./stage scripts/pg_install.sh  the same folders below ./stage, for a package or another machine
#
# The library is stripped of what only debuggers read: a backend maps a fraction of what the compiler wrote.
# Files are written beside the old ones and renamed over them: a running backend keeps the library it has mapped.
set -euo pipefail
cd "$(dirname "$0")/.."
given=${1:-${PG_CONFIG:-pg_config}}
profile=${PROFILE:-extension}

pg_config=$(command -v "$given") || { echo "pg_install: no $given: install postgresql-server-dev-15, or name another pg_config" >&2; exit 1; }
# The one on PATH by its plain name, as .cargo/config.toml has it: another text would make all bindings anew.
if [ "$given" = pg_config ]; then
    export PGRX_PG_CONFIG_PATH=pg_config
else
    PGRX_PG_CONFIG_PATH=$(realpath "$pg_config")
    export PGRX_PG_CONFIG_PATH
fi
# What takes minutes to build is not built for folders that it cannot be put into.
for folder in "$("$pg_config" --pkglibdir)" "$("$pg_config" --sharedir)/extension"; do
    [ -n "${DESTDIR:-}" ] || [ -w "$folder" ] || {
        echo "pg_install: $folder is not writable: install into a folder of your own, make install DESTDIR=\$PWD/stage, and copy that as root," \
            "sudo cp -r --no-preserve=ownership stage/. / (or run this as root, if root has cargo; or name a pg_config of your own Postgres)" >&2
        exit 1
    }
done
version=$("$pg_config" --version)
major=$(sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p' <<<"$version")
case $major in
    15 | 16 | 17 | 18) ;;
    *) echo "pg_install: $version is not supported: this extension is built for PostgreSQL 15 to 18" >&2; exit 1 ;;
esac
[ -e "$("$pg_config" --includedir-server)/postgres.h" ] || { echo "pg_install: no server headers for $version: install postgresql-server-dev-$major" >&2; exit 1; }

# All versions share one target folder. What they have in common (the engine, the bindings' generator) is built once;
# the crates with a feature for the version are kept side by side; only the extension itself is compiled again after
# a change of the version, because its library has one name. A folder for each version would build everything again.
cargo=(cargo build -q -p treedb_pg --no-default-features --features "pg$major")
case $profile in
    dev) "${cargo[@]}"; built=debug ;;
    *) "${cargo[@]}" --profile "$profile"; built=$profile ;;
esac
target=${CARGO_TARGET_DIR:-target}
library=$target/$built/libtreedb_pg.so
scripts/pg_symbols.sh "$library"

# put FROM TO MODE: write beside, then rename over.
put() {
    install -m "$3" "$1" "$2.new.$$"
    mv -f "$2.new.$$" "$2"
}
libdir=${DESTDIR:-}$("$pg_config" --pkglibdir)
sharedir=${DESTDIR:-}$("$pg_config" --sharedir)/extension
[ -z "${DESTDIR:-}" ] || mkdir -p "$libdir" "$sharedir"
size() { echo "$(( ($(stat -c %s "$1") + 524288) / 1048576 )) MiB"; }
if { [ "$profile" = dev ] && [ -z "${STRIP:-}" ]; } || ! command -v strip >/dev/null; then
    put "$library" "$libdir/treedb_pg.so" 755
    told="$(size "$library"), not stripped"
else
    stripped=$(mktemp "${TMPDIR:-/tmp}/treedb_pg.XXXXXX")
    trap 'rm -f "$stripped"' EXIT
    strip --strip-unneeded -o "$stripped" "$library"
    # What SQL calls is still there.
    scripts/pg_symbols.sh "$stripped"
    if [ -n "${SYMBOLS:-}" ]; then
        objcopy --only-keep-debug "$library" "$libdir/treedb_pg.so.debug"
        (cd "$libdir" && objcopy --add-gnu-debuglink=treedb_pg.so.debug "$stripped")
    fi
    put "$stripped" "$libdir/treedb_pg.so" 755
    told="$(size "$stripped"), $(size "$library") with symbols"
fi
current=$(sed -n "s/^default_version = '\(.*\)'/\1/p" treedb_pg/treedb.control)
put treedb_pg/treedb.sql "$sharedir/treedb--$current.sql" 644
# Updates from earlier versions.
for file in treedb_pg/treedb--*.sql treedb_pg/treedb.control; do
    put "$file" "$sharedir/${file##*/}" 644
done
echo "installed treedb $current into $version ($libdir; $told)"
[ "$profile" = dev ] || cat <<'EOF'

Next, in psql, as a superuser of the database that shall have it:

    CREATE EXTENSION treedb;                -- or, where an older version is: ALTER EXTENSION treedb UPDATE;
    SELECT treedb.create_collection('films');
    SELECT treedb.insert_one('films', '{"title": "Alien", "year": 1979}');
    SELECT * FROM treedb.find('films', '{"year": {"$lt": 1990}}');

    CREATE INDEX ON orders USING treedb_btree (placed_at);

Nothing is preloaded and no restart is needed; sessions that use the extension already keep the library they have until
they end. docs/postgres.md is the manual.
EOF
