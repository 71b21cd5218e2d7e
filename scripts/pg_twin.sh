#!/usr/bin/env bash
# Random statements against tables with indexes of treedb_btree and of btree, and random calls on a collection against documents in
# memory: see scripts/pg/twin.py and scripts/pg/document_twin.py.
#
#   scripts/pg_twin.sh                              both
#   scripts/pg_twin.sh STATEMENTS [SEED..]
#   scripts/pg_twin.sh --documents [CALLS] [SEED..]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
install_dev
scripts/venv.sh
python=.venv/bin/python
case ${1:-} in
    "") $python scripts/pg/twin.py && exec $python scripts/pg/document_twin.py ;;
    --documents) shift && exec $python scripts/pg/document_twin.py "$@" ;;
    *) exec $python scripts/pg/twin.py "$@" ;;
esac
