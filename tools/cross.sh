#!/bin/bash
# cross.sh : what is freestanding, built for machines of another byte order and of weak memory order; its tests (those of
# tests/cross/tests.list) run there under QEMU's user emulation. cmocka is not there for them: tests/cross/cmocka.h stands in.
set -uo pipefail
cd "$(dirname "$0")/.."
out=build-check/cross
export PAGEHINT_TEST_ROUNDS_PCT=${PAGEHINT_TEST_ROUNDS_PCT:-1}
failed=0
passed=0

# run_test ARCH CC NAME
run_test() {
	local arch=$1 cc=$2 program=$out/$1-${3//\//-}
	"$cc" -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -static -Itests/cross -Itests -Iinclude -Ilib "tests/$3_test.c" \
		"$out/$cc.o" -o "$program" && "qemu-$arch" "$program" >"$program.log" 2>&1
}

for arch in aarch64 s390x; do
	cc=$arch-linux-gnu-gcc
	bash tools/freestanding.sh --out "$out" "$cc" || { failed=$((failed + 1)); continue; }
	while read -r name; do
		if run_test "$arch" "$cc" "$name"; then
			passed=$((passed + 1))
		else
			echo "failed: $arch $name"
			cat "$out/$arch-${name//\//-}.log" 2>/dev/null
			failed=$((failed + 1))
		fi
	done <tests/cross/tests.list
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
