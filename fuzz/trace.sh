#!/bin/bash
# The reader of recorded traces, which the demo and the replays use, against files that are none.
# needs: clang libclang-rt-14-dev libzstd-dev
. tools/fuzz.sh
with=(-Iexamples examples/trace.c examples/trace-live.c examples/trace-pack.c examples/trace-text.c -lzstd)
fuzz trace "$@"
