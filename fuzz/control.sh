#!/bin/bash
# The sockets of pagehint-balloon against clients that send anything, in any pieces, and hang up when they like.
# needs: clang libclang-rt-14-dev libjson-c-dev
. tools/fuzz.sh
with=(-Itools/balloon tools/balloon/{backend,clients,control,engine,report,state}.c -ljson-c)
fuzz control "$@"
