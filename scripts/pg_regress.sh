#!/usr/bin/env bash
# pg_regress over sql/ and expected/, on a temporary cluster.
#
#   scripts/pg_regress.sh [TEST..]         default: everything in sql/schedule
#   KEEP=1                                 keep the results of a run that passed too
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
install_dev

dir=$(work_dir)
cp -r sql expected "$dir/"
settings >"$dir/extra.conf"
[ "$(id -u)" -eq 0 ] && chown -R postgres "$dir"
tests=("$@")
# Other tests need the collations that the first one provides.
if [ ${#tests[@]} -gt 0 ]; then tests=(collations "${tests[@]}"); else tests=(--schedule="$dir/sql/schedule"); fi

status=0
(cd "$dir" && as_pg "$PG_TEST/regress/pg_regress" --inputdir="$dir" --outputdir="$dir" --bindir="$PG_BIN" \
    --temp-instance="$dir/ti" --temp-config="$dir/extra.conf" --port="$(free_port)" --encoding=UTF8 --no-locale \
    --load-extension=treedb "${tests[@]}") || status=$?
if [ $status -ne 0 ]; then
    cat "$dir/regression.diffs" 2>/dev/null || tail -n 40 "$dir/log/"* 2>/dev/null || true
    echo "results: $dir/results"
elif [ -z "${KEEP:-}" ]; then
    rm -rf "$dir"
fi
exit $status
