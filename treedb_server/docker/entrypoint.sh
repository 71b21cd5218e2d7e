#!/bin/bash
# Starts the server of the image. `serve` gets the image's defaults as TREEDB_* variables where nobody has said otherwise, and the flags
# after it; any other command of treedb runs as it is. Defaults that are variables lose to flags, but win over a configuration file:
# with one, the image has none, and the server's own are safe.
set -euo pipefail

if [ "${1:-serve}" != serve ]; then
    exec treedb "$@"
fi
shift || true

# Whether a flag is among those after `serve`.
flags=("$@")
given() {
    local flag
    for flag in ${flags[@]+"${flags[@]}"}; do
        case "$flag" in "$1" | "$1"=*) return 0 ;; esac
    done
    return 1
}

# Sets a variable that is not set. One that is empty sets nothing, but for the image too.
default() {
    if [ -z "${!1+set}" ]; then
        export "$1=$2"
    fi
}

# TREEDB_PORT and TREEDB_ROOT_PASSWORD are the image's own: the server need not know, nor show, the password.
password="${TREEDB_ROOT_PASSWORD:-}"
port="${TREEDB_PORT:-}"
unset TREEDB_ROOT_PASSWORD TREEDB_PORT
# For a service called treedb, Kubernetes sets TREEDB_PORT to a URL.
[[ "$port" =~ ^[0-9]+$ ]] || port=27017

if [ -n "$password" ] && [ -n "${TREEDB_ROOT_PASSWORD_FILE:-}" ]; then
    echo "treedb: TREEDB_ROOT_PASSWORD and TREEDB_ROOT_PASSWORD_FILE exclude each other" >&2
    exit 1
elif [ -n "$password" ]; then
    # A pipe: the password is in no file, and not among what every process can read.
    exec {pipe}< <(printf '%s\n' "$password")
    export TREEDB_ROOT_PASSWORD_FILE="/dev/fd/$pipe"
fi
unset password

if [ -z "${TREEDB_CONFIG:-}" ] && ! given --config; then
    default TREEDB_DIR /data
    default TREEDB_MONGO "0.0.0.0:$port"
    default TREEDB_ADMIN 127.0.0.1:8080
    default TREEDB_AUTH true
    default TREEDB_REPLICA_SET rs0
    if [ -n "$TREEDB_REPLICA_SET" ]; then
        default TREEDB_ADVERTISE "localhost:${TREEDB_MONGO##*:}"
    fi
    if [ -n "${TREEDB_ROOT_PASSWORD_FILE:-}" ] || given --root-password-file; then
        default TREEDB_ROOT_USER root
    elif [ "$TREEDB_AUTH" = true ] && [ -z "$(ls -A "${TREEDB_DIR:-/data}" 2>/dev/null)" ]; then
        echo "treedb: a new database needs a first user: set TREEDB_ROOT_PASSWORD, or TREEDB_ROOT_PASSWORD_FILE" >&2
        exit 1
    else
        # The users are in the database.
        unset TREEDB_ROOT_USER
    fi
fi
exec treedb serve "$@"
