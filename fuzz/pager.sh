#!/bin/bash
# The pager over a pretended kernel, which says anything in any order, and judges what comes into which page.
# needs: clang libclang-rt-14-dev
. tools/fuzz.sh
fuzz pager "$@"
