#!/bin/bash
# The definition of done, stage by stage; `./dev check` installs what it needs and runs it. One line a stage, with its time;
# what a failed stage said is shown. Every stage runs, also after a failure. The last line counts stages and tests.
# check.sh --all : the long rounds of tools/check_long.sh as well
set -uo pipefail
cd "$(dirname "$0")/.."
out=build-check
jobs=${JOBS:-2}
mkdir -p "$out"
stages=$out/stages
logs=$out/logs
: >"$stages"
: >"$logs"

# stage NAME COMMAND..
stage() {
	local name=$1 start=$SECONDS word=passed
	shift
	"$@" >"$out/$name.log" 2>&1 || word=failed
	printf '%-6s %-22s %4d s\n' "$word" "$name" $((SECONDS - start))
	echo "$word $name" >>"$stages"
	[ $word = passed ] || tail -n 40 "$out/$name.log" | sed 's/^/    /'
	[ $word = passed ]
}

# prepare NAME MESON_OPTION.. : a build of its own in $out/NAME; warnings are errors. Tests build what they need
prepare() {
	local dir=$out/$1 again=()
	shift
	[ ! -f "$dir/build.ninja" ] || again=(--reconfigure)
	meson setup "${again[@]}" --werror "$@" "$dir"
}

# compile NAME MESON_OPTION.. : the same, and everything is built
compile() {
	prepare "$@" && ninja -C "$out/$1" -j "$jobs"
}

# run NAME [LOGNAME] ARG.. : meson test in $out/NAME; its results are counted test by test at the end
run() {
	local dir=$out/$1 log=$2
	shift 2
	rm -f "$dir/meson-logs/$log.json"
	"${before[@]}" meson test -C "$dir" --num-processes "$jobs" --print-errorlogs "$@"
	local code=$?
	python3 tools/count.py "$dir/meson-logs/$log.json" && return $code
}

# tested STAGE NAME LOGNAME ARG.. : a stage that runs tests of $out/NAME
tested() {
	local name=$1
	shift
	stage "$name" run "$@"
	echo "$out/$1/meson-logs/$2.json" >>"$logs"
}

# only STAGE NAME LOGNAME "SUITE.." ARG.. : the same for some suites; those that have no test are left out
only() {
	local name=$1 dir=$2 log=$3 wanted=$4 have suite args=()
	shift 4
	have=$(meson introspect --tests "$out/$dir" | python3 -c \
		'import json, sys; print(*{s.split(":")[-1] for t in json.load(sys.stdin) for s in t["suite"]})')
	for suite in $wanted; do
		[[ " $have " != *" $suite "* ]] || args+=(--suite "$suite")
	done
	[ ${#args[@]} -gt 0 ] || args=(--suite "none-of-$wanted")
	tested "$name" "$dir" "$log" "${args[@]}" "$@"
}

every="--no-suite peers"
plain="$every --no-suite house --no-suite consumer"
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

# newer kernels randomise addresses more than these sanitizers know; without that they work everywhere
before=()
fixed=()
! setarch -R true 2>/dev/null || fixed=(setarch -R)

stage format bash tools/format.sh --check
stage layers python3 tools/layers.py
stage cross bash tools/cross.sh

stage gcc compile gcc -Dbench=enabled && tested gcc-tests gcc testlog $every
stage benches ninja -C "$out/gcc" -j "$jobs" $(basename -as .c bench/*.c | sed 's|^|bench/bench-|') $(sed -n 's/^# builds: //p' bench/*.py)
stage baseline bash tools/baseline.sh compare "$out/gcc"
stage reproducible bash tools/reproducible.sh
stage abi bash tools/abi.sh check "$out/gcc"
only valgrind-tests gcc testlog-valgrind "unit model fault" --setup valgrind --no-suite bare

CC=clang CXX=clang++ stage clang compile clang -Dbench=disabled && tested clang-tests clang testlog $plain
stage lto prepare lto -Db_lto=true -Dbuildtype=release -Dbench=disabled && only lto-tests lto testlog "unit model"
before=("${fixed[@]}")
CC=clang CXX=clang++ stage asan compile asan -Db_sanitize=address,undefined -Db_lundef=false -Dbench=disabled &&
	tested asan-tests asan testlog --timeout-multiplier 4 $plain
stage tsan prepare tsan -Db_sanitize=thread -Dbench=disabled &&
	only tsan-tests tsan testlog "concurrency soak" --timeout-multiplier 6

[ "${1:-}" != --all ] || . tools/check_long.sh

echo
mapfile -t counted <"$logs"
python3 tools/count.py --stages "$stages" "${counted[@]}"
