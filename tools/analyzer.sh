#!/bin/bash
# analyzer.sh BUILD : gcc's analyzer over the files of lib/ that BUILD compiles, as it compiles them; a warning is an error.
# Not asked for what is uninitialized: gcc 12 takes so what an initializer leaves out. Valgrind and clang's analyzer look for that.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 - "$1" <<'END' | xargs -P "${JOBS:-2}" -d '\n' -n 1 bash -c
import json, os, shlex, sys
seen = set()
for e in json.load(open(sys.argv[1] + "/compile_commands.json")):
    file = os.path.relpath(os.path.join(e["directory"], e["file"]))
    if not file.startswith("lib/") or file in seen:
        continue
    seen.add(file)
    words = shlex.split(e["command"])
    words = words[:words.index("-MD")] + ["-fanalyzer", "-Wno-analyzer-use-of-uninitialized-value", "-Werror", "-c", e["file"], "-o", "/dev/null"]
    print(f"cd {shlex.quote(e['directory'])} && {shlex.join(words)}")
if not seen:
    sys.exit("no file of lib/")
print(f"{len(seen)} files", file=sys.stderr)
END
