#!/bin/bash
# tidy.sh BUILD [FILE..] : clang-tidy, as .clang-tidy says, over lib/, tools/balloon/ and examples/ as BUILD compiles them. A process
# a file: one of several files carries the state of its analyzer from one to the next.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(find lib tools/balloon examples -name '*.c' | sort)
commands=$(python3 -c '
import json, os, sys
for e in json.load(open(sys.argv[1] + "/compile_commands.json")):
    print(os.path.relpath(os.path.join(e["directory"], e["file"])))' "$build")
mapfile -t compiled < <(printf '%s\n' "${files[@]}" | grep -Fxf <(echo "$commands"))
for file in "${files[@]}"; do
	[[ " ${compiled[*]} " == *" $file "* ]] || echo "not applicable: $file: $build does not compile it"
done
[ ${#compiled[@]} -gt 0 ] || { echo "no file of $build"; exit 1; }
printf '%s\n' "${compiled[@]}" | xargs -P "${JOBS:-2}" -n 1 clang-tidy --quiet -p "$build"
echo "${#compiled[@]} files"
