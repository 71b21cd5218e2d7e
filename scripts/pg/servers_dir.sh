#!/usr/bin/env bash
# Prints the folder of the PostgreSQL servers that server.sh and source_server.sh install: TREEDB_PG_SERVERS, or a cache
# folder: of the system if we are root, because the server then runs as user postgres, who cannot read root's home.
set -euo pipefail
if [ -n "${TREEDB_PG_SERVERS:-}" ]; then
    echo "$TREEDB_PG_SERVERS"
elif [ "$(id -u)" -eq 0 ]; then
    echo /var/cache/treedb
else
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/treedb"
fi
