#!/usr/bin/env bash
# Updates of the extension, dump and restore, pg_upgrade, formats of pages: see scripts/pg/versions.py.
#
#   scripts/pg_versions.sh [TEST..]
#
# For a later server than 15 the extension is installed into that of 15 too, from which pg_upgrade starts.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
case $("$PG_CONFIG" --version) in
    "PostgreSQL 15"*) ;;
    *)
        PG_CONFIG_15=$(PG_CONFIG=pg_config scripts/pg/server.sh 15)
        export PG_CONFIG_15
        # First, because all versions share one target folder: in `make test` this one is compiled already.
        PROFILE=${PROFILE:-dev} scripts/pg_install.sh pg_config ;;
esac
install_dev
scripts/venv.sh
exec .venv/bin/python scripts/pg/versions.py "$@"
