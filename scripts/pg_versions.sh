#!/usr/bin/env bash
# Updates of the extension, dump and restore, pg_upgrade, formats of pages: see scripts/pg/versions.py.
#
#   scripts/pg_versions.sh [TEST..]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
install_dev
scripts/venv.sh
exec .venv/bin/python scripts/pg/versions.py "$@"
