#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks: PostgreSQL 15 with server headers, libclang for
# the bindings, Python with venv for the driver tests, valgrind for the instruction counts; and the packages named as
# arguments. Installs nothing that is there already.
set -euo pipefail

wanted=()
need() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' || wanted+=("$1"); }
need postgresql-15
need postgresql-server-dev-15
need libclang-dev
need build-essential
command -v valgrind >/dev/null || need valgrind
command -v python3 >/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null || need python3-venv
command -v setpriv >/dev/null || need util-linux
for package in "$@"; do need "$package"; done

if ! command -v cargo >/dev/null; then
    echo "setup: cargo is not on PATH. Install Rust 1.95 or newer (https://www.rust-lang.org/tools/install) and run again." >&2
    exit 1
fi
[ ${#wanted[@]} -eq 0 ] && exit 0

echo "setup: installing ${wanted[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: needs root to run: apt-get install ${wanted[*]}" >&2; exit 1; }
    as_root=(sudo)
fi
# A machine without a running init must not start a cluster of its own, and nothing here needs one.
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    "${as_root[@]}" mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' | "${as_root[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
