#!/bin/bash
# The balloon device against a guest that writes anything anywhere, and against saved states that are none.
# needs: clang libclang-rt-14-dev
. tools/fuzz.sh
fuzz device "$@"
