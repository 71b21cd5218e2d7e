#!/usr/bin/env bash
# Damaged files, a standby, dump and restore, cancelled work: see scripts/pg/faults.py.
#
#   scripts/pg_faults.sh [TEST..]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
install_dev
scripts/venv.sh
exec .venv/bin/python scripts/pg/faults.py "$@"
