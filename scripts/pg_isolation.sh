#!/usr/bin/env bash
# Isolation specs: treedb_pg/specs run by isolationtester on a temporary cluster, compared with treedb_pg/expected.
#
#   scripts/pg_isolation.sh [SPEC..]       default: all of treedb_pg/specs
#   scripts/pg_isolation.sh --on-treedb [SPEC..]  collections are tables USING treedb; default: the specs that make collections
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
install_dev

dir=$(work_dir)
port=$(free_port)
mkdir "$dir/iso"
cp -r treedb_pg/specs treedb_pg/expected "$dir/iso/"
[ "$(id -u)" -eq 0 ] && chown -R postgres "$dir/iso"
trap 'stop_server "$dir" immediate 2>/dev/null || true' EXIT
start_cluster "$dir" "$port"
uses=
if [ "${1:-}" = --on-treedb ]; then
    shift
    uses=create_collection
    export PGOPTIONS="-c treedb.table_access_method=treedb"
fi
specs=("$@")
if [ ${#specs[@]} -eq 0 ]; then
    for file in $(grep -l "$uses" treedb_pg/specs/*.spec); do
        name=${file##*/}
        specs+=("${name%.spec}")
    done
fi
export PGHOST=$dir PGPORT=$port PGUSER=postgres
as_pg "$PG_BIN/psql" -q -d postgres -c 'CREATE DATABASE isolation' -c '\c isolation' -c 'CREATE EXTENSION treedb'

status=0
(cd "$dir/iso" && as_pg "$PG_TEST/isolation/pg_isolation_regress" --inputdir="$dir/iso" --outputdir="$dir/iso" \
    --bindir="$PG_BIN" --dbname=isolation --use-existing --host="$dir" --port="$port" "${specs[@]}") || status=$?
if [ $status -ne 0 ]; then
    cat "$dir/iso/regression.diffs" 2>/dev/null || true
    echo "results: $dir/iso/results"
else
    stop_server "$dir" fast
    rm -rf "$dir"
fi
exit $status
