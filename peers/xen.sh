#!/bin/bash
# The Xen room against a real Xen 4.17: Domain-0 (PV) works on domains that were never started.
# usage: xen.sh [CASE..]      without a case: all of them
# needs: qemu-system-x86 libxen-dev
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- populate_pvh populate_pv limit holes mapped gone scrub reporter xencall self target examples measure
exec bash peers/xen/run.sh xen pv "$@"
