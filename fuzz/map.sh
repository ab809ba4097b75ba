#!/bin/bash
# The memory map beside an oracle: regions of every kind come, go, are pinned and looked up, and the list of mappings may be any text.
# needs: clang libclang-rt-14-dev
. tools/fuzz.sh
fuzz map "$@"
