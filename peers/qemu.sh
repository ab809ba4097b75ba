#!/bin/bash
# Our balloon driver on the balloon of a stock QEMU, over its qtest protocol: no guest is booted. Over pci and mmio, on split
# and packed rings. A figure without a suffix is the worst of all of them.
# needs: qemu-system-x86 libjson-c-dev
set -uo pipefail
cd "$(dirname "$0")/.."

stages=build/peers-qemu.stages
log=build/peers-qemu.log
mkdir -p build
: >"$stages"
: >"$log"

finish() {
	python3 tools/count.py --stages "$stages"
	exit
}

again=()
[ ! -f build/build.ninja ] || again=(--reconfigure) # json-c may have come since
if ! meson setup "${again[@]}" build >build/peers-qemu.setup 2>&1 || ! ninja -C build --quiet >>build/peers-qemu.setup 2>&1; then
	cat build/peers-qemu.setup
	echo "failed qemu-build" >>"$stages"
	finish
fi

# run TEST TRANSPORT FORM: one program; each of its cases is a stage
run() {
	local name="qemu-$1.$2.$3" out="build/peers-$1.$2.$3.out" status=0
	timeout 110 "build/tests/peers/qemu/peers-qemu-$1" "$2" "$3" >"$out" 2>&1 || status=$?
	cat "$out" >>"$log"
	grep '^RESULT' "$out"
	sed -n "s/^\[ *OK *\] test_/passed $name./p" "$out" >>"$stages"
	if [ "$status" != 0 ]; then
		cat "$out"
		echo "failed $name" >>"$stages"
	elif ! grep -q '^\[ *OK *\]' "$out"; then
		echo "failed $name: it ran nothing" >>"$stages"
	fi
	rm -f "$out"
}

for transport in pci mmio; do
	for form in split packed; do
		for test in report balloon hint reset; do run "$test" "$transport" "$form"; done
	done
done
run replay pci split
run replay mmio packed

# RESULT KEY.TRANSPORT.FORM VALUE -> RESULT KEY VALUE: the smallest where more is better, else the largest
awk '/^RESULT/ {
	key = $2
	sub(/\.(pci|mmio)\.(split|packed)$/, "", key)
	more = key ~ /freed_pct|gained|skipped|hinted/
	if (!(key in worst) || (more ? $3 + 0 < worst[key] + 0 : $3 + 0 > worst[key] + 0))
		worst[key] = $3
}
END { for (key in worst) print "RESULT", key, worst[key] }' "$log" | sort
finish
