# Sourced by the scripts that run a temporary Postgres: where its programs are, and how to run them as a user that
# Postgres accepts (it refuses root).

PG_CONFIG=${PG_CONFIG:-pg_config}
PG_BIN=$("$PG_CONFIG" --bindir)
PG_TEST=$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")/test
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# A backtrace in the DETAIL of an error would make expected output differ from machine to machine.
export RUST_BACKTRACE=0
export LC_ALL=C LC_MESSAGES=C PGTZ=UTC PGDATESTYLE=ISO

# as_pg COMMAND..: as user postgres when we are root, else as we are.
as_pg() {
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --reuid=postgres --regid=postgres --init-groups "$@"
    else
        "$@"
    fi
}

# work_dir: a new directory that user postgres may write to.
work_dir() {
    local dir
    dir=$(mktemp -d "${TMPDIR:-/tmp}/treedb_pg.XXXXXX")
    chmod 755 "$dir"
    [ "$(id -u)" -eq 0 ] && chown postgres "$dir"
    echo "$dir"
}

# free_port: a TCP port nobody listens on.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# install_dev: the extension, development profile, into the Postgres of PG_CONFIG.
install_dev() {
    PROFILE=${PROFILE:-dev} "$ROOT/scripts/pg_install.sh" "$PG_CONFIG"
}

# settings: postgresql.conf of every temporary cluster. Crash tests need fsync as little as the rest: an immediate
# stop kills processes, not the machine.
settings() {
    cat <<'EOF'
fsync = off
shared_buffers = 64MB
max_connections = 40
log_min_messages = warning
wal_level = logical
max_prepared_transactions = 5
timezone = 'UTC'
datestyle = 'ISO, YMD'
intervalstyle = 'postgres_verbose'
EOF
}

# start_cluster DIR PORT: initdb and start; the socket lies in DIR.
start_cluster() {
    as_pg "$PG_BIN/initdb" -D "$1/data" -U postgres -A trust --no-sync --encoding=UTF8 --locale=C >"$1/initdb.log"
    settings | as_pg tee -a "$1/data/postgresql.conf" >/dev/null
    start_server "$1" "$2"
}

start_server() {
    as_pg "$PG_BIN/pg_ctl" -D "$1/data" -l "$1/server.log" -w -t 120 -s \
        -o "-p $2 -k $1 -c listen_addresses=''" start || { tail -n 40 "$1/server.log" >&2; return 1; }
}

# stop_server DIR [MODE]
stop_server() {
    as_pg "$PG_BIN/pg_ctl" -D "$1/data" -s -m "${2:-fast}" stop
}
