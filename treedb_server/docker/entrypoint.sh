#!/bin/bash
# Starts the server of the image. `serve` gets what the variables ask for, and the flags after it; any other command of
# treedb runs as it is. A secret may also be in a file, which TREEDB_ROOT_PASSWORD_FILE names.
set -euo pipefail

if [ "${1:-serve}" != serve ]; then
    exec treedb "$@"
fi
shift || true

flags=(--dir /data --mongo "0.0.0.0:${TREEDB_PORT:-27017}" --admin 127.0.0.1:8080 --auth)
flags+=(--root-user "${TREEDB_ROOT_USER:-root}")

if [ -n "${TREEDB_ROOT_PASSWORD:-}" ] && [ -n "${TREEDB_ROOT_PASSWORD_FILE:-}" ]; then
    echo "treedb: TREEDB_ROOT_PASSWORD and TREEDB_ROOT_PASSWORD_FILE exclude each other" >&2
    exit 1
elif [ -n "${TREEDB_ROOT_PASSWORD_FILE:-}" ]; then
    flags+=(--root-password-file "$TREEDB_ROOT_PASSWORD_FILE")
elif [ -n "${TREEDB_ROOT_PASSWORD:-}" ]; then
    # A pipe: the password is in no file, and not among the arguments that every process can read.
    exec {password}< <(printf '%s\n' "$TREEDB_ROOT_PASSWORD")
    flags+=(--root-password-file "/dev/fd/$password")
elif [ -z "$(ls -A /data)" ]; then
    echo "treedb: a new database needs a first user: set TREEDB_ROOT_PASSWORD, or TREEDB_ROOT_PASSWORD_FILE" >&2
    exit 1
else
    # The users are in the database.
    unset 'flags[-1]' 'flags[-1]'
fi

set_name="${TREEDB_REPLICA_SET-rs0}"
if [ -n "$set_name" ]; then
    flags+=(--replica-set "$set_name" --advertise "${TREEDB_ADVERTISE:-localhost:${TREEDB_PORT:-27017}}")
fi
if [ -n "${TREEDB_TLS_CERTIFICATE:-}" ]; then
    flags+=(--tls-certificate "$TREEDB_TLS_CERTIFICATE" --tls-key "${TREEDB_TLS_KEY:?is not set, but TREEDB_TLS_CERTIFICATE is}")
fi
# The server need not know, nor show, what has become flags.
unset TREEDB_PORT TREEDB_ROOT_USER TREEDB_ROOT_PASSWORD TREEDB_ROOT_PASSWORD_FILE TREEDB_REPLICA_SET TREEDB_ADVERTISE \
    TREEDB_TLS_CERTIFICATE TREEDB_TLS_KEY
exec treedb serve "${flags[@]}" "$@"
