#!/bin/bash
# The host of a shared zone against a guest that writes anything anywhere into the state.
# needs: clang libclang-rt-14-dev
. tools/fuzz.sh
fuzz shared "$@"
