#!/bin/bash
# A zone and its caches against any order of operations, beside the oracle of the model tests.
# needs: clang libclang-rt-14-dev
. tools/fuzz.sh
fuzz zone "$@"
