# tools/fuzz.sh: what every fuzz/NAME.sh does. It says what it needs, and then:
#
#	. tools/fuzz.sh
#	fuzz NAME "$@"
#
# The target is every .c of fuzz/NAME/, linked with the library, all under libFuzzer, AddressSanitizer and
# UndefinedBehaviorSanitizer. What it needs beside the library is named before: with=(FILE.c.. -lLIBRARY.. -IDIR..), and what
# libFuzzer is to be told: limits=(-OPTION..).
# fuzz/NAME/corpus/ holds the inputs that are kept; new ones gather in build-fuzz/corpus-NAME/. fuzz/NAME/words: libFuzzer's dictionary.
# Seconds: the argument, or PAGEHINT_FUZZ_SECONDS, or 60. Cases: the corpus once more, and new inputs.
with=()
limits=()

# fuzz NAME [SECONDS] [LIBFUZZER_OPTION..]
fuzz() {
	local name=$1 seconds=${2:-${PAGEHINT_FUZZ_SECONDS:-60}} stages=build/fuzz-$1.stages
	shift $(($# < 2 ? $# : 2))
	mkdir -p build
	: >"$stages"
	if fuzz_build "$name"; then
		fuzz_case "$name" corpus -runs=0 && fuzz_case "$name" new "-max_total_time=$seconds" "$@"
	else
		echo "failed fuzz-$name-build" >>"$stages"
	fi
	python3 tools/count.py --stages "$stages"
}

# fuzz_all [SECONDS] : every target, for its share of the seconds (the argument, or PAGEHINT_FUZZ_SECONDS, or ten minutes)
fuzz_all() {
	local seconds=${1:-${PAGEHINT_FUZZ_SECONDS:-600}} name names=() share stages=build/fuzz-all.stages
	for name in fuzz/*.sh; do names+=("$(basename "$name" .sh)"); done
	share=$((seconds / ${#names[@]}))
	[ $share -gt 0 ] || share=1
	mkdir -p build
	: >"$stages"
	for name in "${names[@]}"; do
		printf '\n== fuzz %s, %s s\n' "$name" $share
		rm -f "build/fuzz-$name.stages"
		bash "fuzz/$name.sh" $share || true # it is counted below
		[ -s "build/fuzz-$name.stages" ] || echo "failed fuzz-$name" >"build/fuzz-$name.stages"
		cat "build/fuzz-$name.stages" >>"$stages"
	done
	printf '\n== all targets\n'
	python3 tools/count.py --stages "$stages"
}

fuzz_build() {
	local dir=build-fuzz again=()
	mkdir -p $dir
	if [ ! $dir/build.ninja -nt tools/fuzz.sh ]; then # else ninja sees by itself to what has changed
		[ ! -f $dir/build.ninja ] || again=(--reconfigure)
		CC=clang CXX=clang++ meson setup "${again[@]}" -Dbuildtype=debugoptimized -Db_sanitize=address,undefined \
			-Db_lundef=false -Dc_args=-fsanitize=fuzzer-no-link -Dc_link_args= -Ddefault_library=static -Dman=disabled \
			-Dtests=disabled -Dbench=disabled $dir >$dir/setup.log 2>&1 || { cat $dir/setup.log; return 1; }
	fi
	ninja -C $dir -j "${JOBS:-$(nproc)}" --quiet lib/libpagehint-core.a || return 1
	clang -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 -g -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -Iinclude -Ilib -Itests -Ifuzz "fuzz/$1"/*.c "${with[@]}" \
		$dir/lib/libpagehint-core.a -lpthread -o "$dir/fuzz-$1"
}

# fuzz_case NAME CASE LIBFUZZER_OPTION.. : one run; an input that fails is left in build/
fuzz_case() {
	local name=$1 what=$2 word=failed execs found=build-fuzz/corpus-$1
	shift 2
	[ ! -f "fuzz/$name/words" ] || set -- "$@" "-dict=fuzz/$name/words"
	mkdir -p "$found"
	if UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 "build-fuzz/fuzz-$name" -print_final_stats=1 -timeout=10 \
		-rss_limit_mb=1024 "${limits[@]}" "-artifact_prefix=build/fuzz-$name-" "$@" "$found" "fuzz/$name/corpus" \
		>"build/fuzz-$name-$what.log" 2>&1; then
		word=passed
	else
		tail -n 60 "build/fuzz-$name-$what.log"
	fi
	execs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz-$name-$what.log")
	[ "${execs:-0}" -gt 0 ] || word=failed
	[ "$what" != new ] || echo "RESULT fuzz.$name.execs ${execs:-0}"
	echo "$word fuzz-$name-$what" >>"build/fuzz-$name.stages"
	[ $word = passed ]
}
