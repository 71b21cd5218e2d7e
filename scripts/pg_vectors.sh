#!/usr/bin/env bash
# treedb_hnsw beside pgvector's hnsw: see scripts/pg/vectors.py. The server of PG_CONFIG needs pgvector:
#
#   PG_CONFIG=$(scripts/pg/server.sh 18) scripts/pg_vectors.sh [--rows N] [--dimensions D] [--vectors FILE] [--ef EF..]
set -euo pipefail
cd "$(dirname "$0")/.."
export PROFILE=${PROFILE:-release}
. scripts/pg_common.sh
install_dev
scripts/venv.sh
exec .venv/bin/python scripts/pg/vectors.py "$@"
