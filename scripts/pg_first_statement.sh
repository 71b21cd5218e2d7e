#!/usr/bin/env bash
# What the first statement of a connection takes, a search beside the same of jsonb: see scripts/pg/first_statement.py.
#
#   scripts/pg_first_statement.sh [--rounds N] [--connections N] [--instructions]
set -euo pipefail
cd "$(dirname "$0")/.."
export PROFILE=${PROFILE:-release}
. scripts/pg_common.sh
[ -n "${INSTALLED:-}" ] || install_dev
scripts/venv.sh
exec .venv/bin/python scripts/pg/first_statement.py "$@"
