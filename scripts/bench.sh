#!/usr/bin/env bash
# Builds the benchmarks with all peers and runs one suite, or `all`. Installs RocksDB's library and the headers of RocksDB
# and hnswlib if they are missing: only the benchmarks need them.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh librocksdb-dev libhnswlib-dev
target=${CARGO_TARGET_DIR:-target}
# PoloDB compiles its own RocksDB, once: a quarter of an hour on two cores. Only the documents suite uses it.
case ${1:-all} in
    all | documents)
        cargo build -q --release --manifest-path bench/polodb/Cargo.toml --target-dir "$target/polodb"
        BENCH_POLODB=$(realpath "$target/polodb/release/polodb_peer")
        export BENCH_POLODB
        ;;
esac
# The servers are processes of their own.
case ${1:-all} in
    all | server | connections | access_paths)
        cargo build -q --release -p treedb_server --bin treedb
        BENCH_TREEDB=$(realpath "$target/release/treedb")
        export BENCH_TREEDB
        ;;
esac
# The peer is a program of its own too, installed once: seven minutes on two cores.
case ${1:-all} in
    all | server | connections)
        # A thousand connections.
        ulimit -n 8192 || true
        if [ -z "${BENCH_SECANTUSD:-}" ]; then
            peers=$(realpath "$target")/peers
            [ -x "$peers/bin/secantusd-rs" ] ||
                CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS=fallback CARGO_TARGET_DIR=$target/secantus cargo install -q \
                    secantus-mdb --version 0.5.3-beta.196 --ignore-rust-version --root "$peers"
            BENCH_SECANTUSD=$peers/bin/secantusd-rs
        fi
        export BENCH_SECANTUSD
        ;;
esac
# Embeddings of real sentences, made once: a quarter of an hour or so, most of it for the sets of 768 and 1536 dimensions,
# which are in files beside the one that is named.
case ${1:-all} in
    all | vectors | pg_vectors)
        BENCH_TEXT_VECTORS=$(realpath -m "${BENCH_TEXT_VECTORS:-$target/bench-data/text_vectors.f32}")
        missing=()
        for dimensions in 384 768 1536; do
            file=$BENCH_TEXT_VECTORS
            name=${file##*/} end=
            case $name in ?*.*) end=.${name##*.} ;; esac
            [ $dimensions = 384 ] || file=${file%"$end"}_$dimensions$end
            [ -s "$file" ] || missing+=("$dimensions")
        done
        [ ${#missing[@]} = 0 ] || bench/text_vectors.py --out "$BENCH_TEXT_VECTORS" --dimensions "${missing[@]}"
        export BENCH_TEXT_VECTORS
        ;;
esac
# One of the clients is PyMongo.
case ${1:-all} in
    all | access_paths)
        scripts/venv.sh
        BENCH_PYTHON=$PWD/.venv/bin/python
        export BENCH_PYTHON
        ;;
esac
# Without these the bindings would compile a RocksDB of their own.
ROCKSDB_LIB_DIR=/usr/lib/$(gcc -print-multiarch)
export ROCKSDB_LIB_DIR ROCKSDB_INCLUDE_DIR=/usr/include
exec cargo run -q --release -p bench --features peers -- "$@"
