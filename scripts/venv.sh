#!/usr/bin/env bash
# Makes .venv with what the Python tests and the demo need, pinned, unless it is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=scripts/requirements.txt
made=.venv/requirements.txt
cmp -s "$wanted" "$made" && exit 0
# Suites that begin at the same time make it once: the others wait, and find it made.
exec 9<"$wanted"
flock 9
cmp -s "$wanted" "$made" && exit 0
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check --requirement "$wanted"
cp "$wanted" "$made"
