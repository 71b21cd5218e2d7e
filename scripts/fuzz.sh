#!/usr/bin/env bash
# Each fuzz target for so many seconds: scripts/fuzz.sh 60 [TARGET..]. What it finds is in fuzz/artifacts/TARGET/.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds="${1:-60}"
shift || true
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "cargo-fuzz is missing: cargo install cargo-fuzz" >&2
    exit 1
fi
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(cargo +nightly fuzz list)
fi
for target in "${targets[@]}"; do
    features=()
    case "$target" in
        *_frames) features=(--features server) ;;
    esac
    echo "==> $target, $seconds s"
    cargo +nightly fuzz run "${features[@]}" "$target" -- -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 \
        -print_final_stats=1 2>&1 | grep -E "panicked|ERROR|SUMMARY|stat::number_of_executed|Test unit written" || true
done
if [ -n "$(find artifacts -type f 2>/dev/null)" ]; then
    echo "findings:" >&2
    find artifacts -type f >&2
    exit 1
fi
echo "no findings"
