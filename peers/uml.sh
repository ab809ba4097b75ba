#!/bin/bash
# The installed program against the real Linux driver: stock User-Mode Linux guests, no privilege and no KVM needed.
# usage: uml.sh [CASE..]      without a case: all of them
# needs: user-mode-linux busybox-static libjson-c-dev libseccomp-dev libcap-ng-dev
set -uo pipefail
cd "$(dirname "$0")/.."
stages=build/peers-uml.stages
variants=(die hints record scribble shift)
mkdir -p build
{
	if [ -f build/build.ninja ]; then meson setup --reconfigure -Ddaemon=enabled build; else meson setup -Ddaemon=enabled build; fi &&
		ninja -C build -j "$(nproc)" tools/balloon/pagehint-balloon "${variants[@]/#/tests/peers/uml/balloon-}"
} >build/peers-uml.log 2>&1 || { tail -n 30 build/peers-uml.log; echo "failed build" >"$stages"; exec python3 tools/count.py --stages "$stages"; }
python3 peers/uml/run.py "$stages" "$@"
python3 tools/count.py --stages "$stages"
