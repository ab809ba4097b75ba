#!/bin/bash
# Every struct of options, of any size and with any bytes, into what takes it: it is refused and leaves nothing, or it works.
# needs: clang libclang-rt-14-dev
. tools/fuzz.sh
with=(-Wl,--wrap=mmap64,--wrap=munmap)
limits=(-malloc_limit_mb=1048576) # who asks for too much hears that there is none
fuzz options "$@"
