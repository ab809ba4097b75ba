#!/bin/bash
# Whatever is read back from bytes that somebody kept: it is refused, and nothing is changed, or it is a state like any other.
# needs: clang libclang-rt-14-dev
. tools/fuzz.sh
with=(-Ifuzz/device -Ifuzz/pager fuzz/device/machine.c fuzz/pager/kernel.c)
fuzz state "$@"
