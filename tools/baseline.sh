#!/bin/bash
# baseline.sh write | compare BUILD : measures what is cheap and the same on every machine, and keeps it in bench/baseline.json, or
# compares it with what is kept there. BUILD is one with benches and optimization, by gcc, without sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
verb=$1
build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ninja -C "$build" -j "${JOBS:-2}" --quiet bench/bench-{device,domain,driver} tests/instructions/hot_paths
for name in device domain driver; do
	"$build/bench/bench-$name" --quick --json "$scratch/$name.json" >"$scratch/$name.log" || { cat "$scratch/$name.log"; exit 1; }
done
python3 tests/instructions/instructions_test.py "$(command -v valgrind)" "$build/tests/instructions/hot_paths" \
	--json "$scratch/instructions.json"
python3 bench/baseline/baseline.py "$verb" "$scratch"/*.json
