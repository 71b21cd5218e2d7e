#!/usr/bin/env bash
# Prints the pg_config of a PostgreSQL that is built from Debian's source, which it does first if it is not there yet:
# about five minutes on two cores.
#
#   scripts/pg/source_server.sh 17             of the major version that Debian 13 has
#   scripts/pg/source_server.sh 15 --asserts   with assertions (--enable-cassert), for 15 or 17
#
# Assertions check what the server otherwise trusts an extension with: arguments, locks held, pins and pages, memory
# contexts, the order of what is logged. servers_dir.sh says where they lie; only root can install what the build needs.
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { echo "source_server: scripts/pg/source_server.sh MAJOR [--asserts]" >&2; exit 2; }
case ${1:-} in
    15) suite=bookworm kept='' hash='' ;;
    # The version, and the hash of its source, that is there where those listed are not.
    17) suite=trixie kept=17.11 hash=dd27f2b3c59e73ed14aa3324901242bf69a032a6347805f274e6260322d42979 ;;
    *) echo "source_server: Debian has the source of PostgreSQL 15 and 17" >&2; exit 2 ;;
esac
major=$1 name=postgresql-$1 options=() flags=-O2
case ${2:-} in
    --asserts) name+=-asserts options=(--enable-cassert) flags="-O1 -fno-omit-frame-pointer" ;;
    "") ;;
    *) usage ;;
esac

servers=$(scripts/pg/servers_dir.sh)
place=$servers/$name
if [ ! -x "$place/bin/pg_config" ]; then
    scripts/setup.sh bison flex perl dpkg-dev curl debian-archive-keyring libreadline-dev zlib1g-dev libicu-dev liblz4-dev libzstd-dev >&2
    mkdir -p "$servers"
    new=$(mktemp -d "$servers/new.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    # The mirrors are those that packages come from; the lists are kept apart from the system's.
    mkdir "$new/lists" "$new/parts"
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u | while read -r mirror; do
        case $mirror in
            *-security/) suites=$suite-security ;;
            *) suites="$suite $suite-updates" ;;
        esac
        for each in $suites; do
            echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $each main"
        done
    done >"$new/sources.list"
    apt=(apt-get -qq -o "Dir::Etc::SourceList=$new/sources.list" -o "Dir::Etc::SourceParts=$new/parts"
        -o "Dir::State::Lists=$new/lists" -o APT::Sandbox::User=root)
    "${apt[@]}" update >&2
    # The newest version that the mirror has: a security update may be listed and not be there.
    cache=(apt-cache "${apt[@]:2}")
    for version in $("${cache[@]}" showsrc "postgresql-$major" | sed -n 's/^Version: //p' | sort -Vru); do
        (cd "$new" && "${apt[@]}" source "postgresql-$major=$version" >&2) && break
    done
    if ! compgen -G "$new/postgresql-$major[-.]*/" >/dev/null && [ -n "$kept" ]; then
        mirror=$(sed -n 's|^deb-src \[.*\] \([^ ]*/debian/\) .*|\1|p' "$new/sources.list" | head -n 1)
        archive=$new/postgresql-$kept.tar.bz2
        curl -fsSL -o "$archive" "${mirror}pool/main/p/postgresql-$major/postgresql-${major}_$kept.orig.tar.bz2" >&2
        echo "$hash  $archive" | sha256sum --check --quiet >&2
        tar -xf "$archive" -C "$new"
    fi
    cd "$new/postgresql-$major"[-.]*/
    # The prefix is this folder's, so that initdb finds its own files.
    ./configure --quiet --prefix="$place" "${options[@]}" --enable-debug --with-icu --with-lz4 --with-zstd \
        --with-system-tzdata=/usr/share/zoneinfo CFLAGS="-g $flags" >&2
    make -s -j"$(nproc)" world-bin >&2
    make -s install-world-bin >&2
    # pg_regress and the isolation tester lie where the scripts expect them.
    make -s -C src/test/regress install >&2
    make -s -C src/test/isolation install >&2
    chmod -R go+rX "$place"
    chmod go+rx "$servers"
fi
echo "$place/bin/pg_config"
