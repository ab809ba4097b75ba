#!/bin/bash
# The same with a Domain-0 whose memory is translated, and that gives up locked memory of its own.
# usage: xen-pvh.sh [CASE..]
# needs: qemu-system-x86 libxen-dev
# nightly
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- populate_pvh populate_pv limit holes mapped gone scrub reporter xencall own target examples measure
exec bash peers/xen/run.sh xen-pvh pvh "$@"
