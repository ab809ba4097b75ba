#!/bin/bash
# Both ends of a virtqueue against bytes that the other side may write.
# needs: clang libclang-rt-14-dev
. tools/fuzz.sh
fuzz ring "$@"
