#!/usr/bin/env bash
# Prints the pg_config of a PostgreSQL 15 with assertions (--enable-cassert), which it builds first from Debian's source
# if it is not there yet: about ten minutes on two cores.
#
# Assertions check what the server otherwise trusts an extension with: arguments, locks held, pins and pages, memory
# contexts, the order of what is logged. The folder is TREEDB_PG_SERVERS, or a cache folder of the system; only root
# can install what the build needs.
set -euo pipefail
cd "$(dirname "$0")/../.."

servers=${TREEDB_PG_SERVERS:-}
if [ -z "$servers" ]; then
    if [ "$(id -u)" -eq 0 ]; then servers=/var/cache/treedb; else servers=${XDG_CACHE_HOME:-$HOME/.cache}/treedb; fi
fi
place=$servers/postgresql-15-assert
if [ ! -x "$place/bin/pg_config" ]; then
    scripts/setup.sh bison flex dpkg-dev libreadline-dev zlib1g-dev libicu-dev liblz4-dev libzstd-dev >&2
    mkdir -p "$servers"
    new=$(mktemp -d "$servers/new.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    # Where packages come from, their sources do: the same lists, with the other type, kept apart from the system's.
    mkdir "$new/lists" "$new/parts"
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] && sed 's/^Types:.*/Types: deb-src/' "$file" >"$new/parts/${file##*/}"
    done
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list 2>/dev/null >"$new/parts/sources.list" || true
    apt=(apt-get -qq -o "Dir::Etc::SourceList=$new/parts/sources.list" -o "Dir::Etc::SourceParts=$new/parts"
        -o "Dir::State::Lists=$new/lists" -o APT::Sandbox::User=root)
    "${apt[@]}" update >&2
    # The newest version that the mirror has: a security update may be listed and not be there.
    cache=(apt-cache "${apt[@]:2}")
    versions=$("${cache[@]}" showsrc postgresql-15 | sed -n 's/^Version: //p' | sort -Vru)
    for version in $versions; do
        (cd "$new" && "${apt[@]}" source "postgresql-15=$version" >&2) && break
    done
    cd "$new"/postgresql-15-*/
    # The prefix is this folder's, so that initdb finds its own files.
    ./configure --quiet --prefix="$place" --enable-cassert --enable-debug --with-icu --with-lz4 --with-zstd \
        --with-system-tzdata=/usr/share/zoneinfo CFLAGS="-O1 -g -fno-omit-frame-pointer" >&2
    make -s -j"$(nproc)" world-bin >&2
    make -s install-world-bin >&2
    # pg_regress and the isolation tester lie where the scripts expect them.
    make -s -C src/test/regress install >&2
    make -s -C src/test/isolation install >&2
    chmod -R go+rX "$place"
    chmod go+rx "$servers"
fi
echo "$place/bin/pg_config"
