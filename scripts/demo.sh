#!/usr/bin/env bash
# The demo: builds TreeDB, loads the machine's own package index (about 60,000 real documents) into a server on a
# new directory and into a Postgres collection on a temporary cluster, and asks all doors the same questions.
#
#   scripts/demo.sh            everything is removed again at the end
#   KEEP=1 scripts/demo.sh     the data stays in demo-data/, and the last lines say how to open it
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
server_pid= cluster=
finish() {
    [ -n "$server_pid" ] && kill -TERM "$server_pid" 2>/dev/null && wait "$server_pid" 2>/dev/null
    [ -n "$cluster" ] && { stop_server "$cluster" 2>/dev/null || true; rm -rf "$cluster"; }
    [ -n "${KEEP:-}" ] || rm -rf demo-data/db
}
trap finish EXIT

say "1. Build (a cold build takes some minutes)"
cargo build --release -p treedb_server
# What the server's build has compiled already is used again.
PROFILE=release scripts/pg_install.sh "$PG_CONFIG"
scripts/venv.sh
treedb=${CARGO_TARGET_DIR:-target}/release/treedb

say "2. The documents: this machine's package index"
mkdir -p demo-data
rm -rf demo-data/db
if [ -z "$(apt-cache dumpavail | head -c1)" ]; then
    if [ "$(id -u)" -eq 0 ]; then apt-get update -qq; else sudo apt-get update -qq; fi
fi
[ -s demo-data/packages.jsonl ] || scripts/demo/packages.py >demo-data/packages.jsonl
ls -l demo-data/packages.jsonl | awk '{printf "%.1f MB of JSON lines\n", $5 / 1e6}'

say "3. Load them into a TreeDB server"
mkfifo demo-data/listening.$$
"$treedb" serve --dir demo-data/db --mongo 127.0.0.1:0 --native 127.0.0.1:0 >demo-data/listening.$$ 2>demo-data/server.log &
server_pid=$!
exec 3<demo-data/listening.$$
rm demo-data/listening.$$
read -r _ _ mongo <&3
read -r _ _ native <&3
echo "treedb serve --dir demo-data/db: mongodb on $mongo, native on $native"
"$treedb" import debian.packages demo-data/packages.jsonl --native "$native"

say "4. Load them into a Postgres collection"
cluster=$(work_dir)
as_pg "$PG_BIN/initdb" -D "$cluster/data" -U postgres -A trust --no-sync --encoding=UTF8 --locale=C >"$cluster/initdb.log"
as_pg tee -a "$cluster/data/postgresql.conf" >/dev/null <<'EOF'
shared_buffers = 256MB
EOF
start_server "$cluster" 54329

.venv/bin/python scripts/demo/ask.py --mongo "$mongo" --native "$native" --treedb "$treedb" \
    --postgres "host=$cluster port=54329 user=postgres dbname=postgres" demo-data/packages.jsonl

if [ -n "${KEEP:-}" ]; then
    say "Kept: $treedb serve --dir demo-data/db"
fi
