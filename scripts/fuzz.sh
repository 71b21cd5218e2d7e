#!/usr/bin/env bash
# Each fuzz target for so many seconds: scripts/fuzz.sh 60 [TARGET..]. They begin with what scripts/fuzz_seeds.py makes
# and with what earlier runs found worth keeping (fuzz/corpus/TARGET). What fails is in fuzz/artifacts/TARGET/.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds="${1:-60}"
shift || true
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "cargo-fuzz is missing: cargo install cargo-fuzz" >&2
    exit 1
fi
../scripts/fuzz_seeds.py
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(cargo +nightly fuzz list)
fi
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
failed=0
for target in "${targets[@]}"; do
    features=()
    case "$target" in
        *_frames) features=(--features server) ;;
    esac
    echo "==> $target, $seconds s"
    if cargo +nightly fuzz run "${features[@]}" "$target" -- -max_total_time="$seconds" -timeout=20 \
        -rss_limit_mb=3000 -print_final_stats=1 >"$log" 2>&1; then
        grep -E "^Done |stat::number_of_executed" "$log" || true
    else
        # It did not build, or it found something.
        failed=1
        grep -E "^error|panicked|ERROR|SUMMARY|Test unit written" "$log" || tail -n 30 "$log"
    fi
done
if [ "$failed" -ne 0 ]; then
    echo "findings:" >&2
    find artifacts -type f >&2 2>/dev/null || true
    exit 1
fi
echo "no findings"
