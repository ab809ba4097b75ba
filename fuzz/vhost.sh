#!/bin/bash
# A vhost-user session against a frontend that sends any messages, and a guest that writes any bytes into its rings.
# needs: clang libclang-rt-14-dev
. tools/fuzz.sh
fuzz vhost "$@"
