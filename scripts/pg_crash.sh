#!/usr/bin/env bash
# Immediate stops of Postgres under load, table and indexes compared after each: see scripts/pg/crash.py.
#
#   scripts/pg_crash.sh [ROUNDS] [SEED]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
install_dev
scripts/venv.sh
exec .venv/bin/python scripts/pg/crash.py "$@"
