#!/usr/bin/env bash
# Hostile arguments for every SQL function: see scripts/pg/hostile.py.
#
#   scripts/pg_hostile.sh [CALLS] [SEED..]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
install_dev
scripts/venv.sh
exec .venv/bin/python scripts/pg/hostile.py "$@"
