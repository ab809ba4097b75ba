# check_long.sh: the long rounds of `./dev check --all`; tools/check.sh reads it behind its own stages.

# machine NAME "SUITES" : the library and its tests for what tests/cross/NAME.ini describes, and those suites run there. cmocka is
# built from its source (subprojects/cmocka.wrap), once a machine.
machine() {
	local name=$1 suites=$2
	stage "$name" compile "$name" --cross-file "tests/cross/$name.ini" --force-fallback-for=cmocka \
		-Dbench=disabled -Dman=disabled &&
		only "$name-tests" "$name" testlog "$suites" --timeout-multiplier 6
}

before=()
stage cmocka-source bash tools/cmocka_source.sh
stage tidy bash tools/tidy.sh "$out/gcc"
stage analyzer bash tools/analyzer.sh "$out/gcc"

# processes of this kernel: 32 bits, and another C library
machine i386 "unit model fault hostile conformance concurrency"
machine musl "unit model fault hostile conformance concurrency"

# other instruction sets, emulated: what an emulator makes of the kernel's word is not asked
export PAGEHINT_TEST_EMULATED=1 PAGEHINT_TEST_ROUNDS_PCT=2
for name in aarch64 riscv64 s390x; do
	machine "$name" "unit model"
done
unset PAGEHINT_TEST_EMULATED PAGEHINT_TEST_ROUNDS_PCT

# every suite's processes behind a filter of the manifest of system calls, and of what tests need beside it (tests/seccomp/behind.c)
only seccomp-tests gcc testlog-seccomp "unit fault conformance" --setup seccomp --no-suite bare
