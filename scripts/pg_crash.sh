#!/usr/bin/env bash
# Immediate stops of Postgres under load, and backends that die at each fault point; tables and indexes compared after each: see
# scripts/pg/crash.py and scripts/pg/crash_points.py.
#
#   scripts/pg_crash.sh [ROUNDS] [SEED]
#   scripts/pg_crash.sh --points [POINT..]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
install_dev
scripts/venv.sh
if [ "${1:-}" = --points ]; then
    shift
    exec .venv/bin/python scripts/pg/crash_points.py "$@"
fi
exec .venv/bin/python scripts/pg/crash.py "$@"
