#!/usr/bin/env bash
# pg_regress over treedb_pg/sql and treedb_pg/expected, on a temporary cluster.
#
#   scripts/pg_regress.sh [TEST..]         default: everything in treedb_pg/sql/schedule
#   scripts/pg_regress.sh --on-treedb [TEST..]  collections are tables USING treedb; default: what in the schedule makes collections
#   KEEP=1                                 keep the results of a run that passed too
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
install_dev

dir=$(work_dir)
cp -r treedb_pg/sql treedb_pg/expected "$dir/"
# JIT compilation takes longer than the queries here: hnsw_paths took four minutes on PostgreSQL 15, and takes five seconds without it.
{ settings && echo "jit = off"; } >"$dir/extra.conf"
if [ "${1:-}" = --on-treedb ]; then
    shift
    echo "treedb.table_access_method = treedb" >>"$dir/extra.conf"
    if [ $# -eq 0 ]; then
        set -- on_treedb
        for name in $(sed -n 's/^test: //p' treedb_pg/sql/schedule); do
            case $name in
                settings | statistics) ;; # about the setting itself
                filter_order | find_intersections | hnsw_several | hnsw_thousandth) ;; # which take half a minute each, most of it for indexes
                *) ! grep -q create_collection "treedb_pg/sql/$name.sql" || set -- "$@" "$name" ;;
            esac
        done
    fi
fi
[ "$(id -u)" -eq 0 ] && chown -R postgres "$dir"
tests=("$@")
# Other tests need the collations that the first one provides.
if [ ${#tests[@]} -gt 0 ]; then tests=(collations "${tests[@]}"); else tests=(--schedule="$dir/sql/schedule"); fi

status=0
(cd "$dir" && as_pg "$PG_TEST/regress/pg_regress" --inputdir="$dir" --outputdir="$dir" --bindir="$PG_BIN" \
    --temp-instance="$dir/ti" --temp-config="$dir/extra.conf" --port="$(free_port)" --encoding=UTF8 --no-locale \
    --load-extension=treedb "${tests[@]}") || status=$?

# Tests that end at once where the server lacks what they are about, and the servers that have it.
major=$("$PG_CONFIG" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
for variant in "table_decoding:test_decoding:15 18" "btree_nondeterministic:ICU:15" "hnsw_pgvector:pgvector:18" "hnsw_halfvec:pgvector:18" "btree_lz4_keys:lz4:15"; do
    IFS=: read -r name what where <<<"$variant"
    [ -e "$dir/results/$name.out" ] || continue
    if ! cmp -s "$dir/results/$name.out" "treedb_pg/expected/${name}_1.out"; then
        echo "summary: $name: the server has $what"
    else
        echo "summary: $name: the server has no $what, the test ended at once"
        case " $where " in *" $major "*) status=1; echo "$name FAILED: a PostgreSQL $major for tests has to have it" ;; esac
    fi
done
if [ $status -ne 0 ]; then
    cat "$dir/regression.diffs" 2>/dev/null || tail -n 40 "$dir/log/"* 2>/dev/null || true
    echo "results: $dir/results"
elif [ -z "${KEEP:-}" ]; then
    rm -rf "$dir"
fi
exit $status
