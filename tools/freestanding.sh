#!/bin/bash
# freestanding.sh [--sources "FILE.."] [--out DIR] CC.. : the files of lib/virtio/freestanding.list, which guest kernels and
# unikernels take, need nothing but mem* functions. Each CC compiles them -ffreestanding and links them -nostdlib into
# DIR/CC.o; what stays undefined there is listed. Exit 1 when that is more than memcpy, memmove, memset and memcmp.
set -euo pipefail
cd "$(dirname "$0")/.."
out=build-check/freestanding
sources=$(sed 's|^|lib/virtio/|' lib/virtio/freestanding.list)
while [[ ${1:-} == --* ]]; do
	case $1 in
	--sources) sources=$2 ;;
	--out) out=$2 ;;
	*) sed -n 2,4p "$0" >&2; exit 2 ;;
	esac
	shift 2
done
[ $# -gt 0 ] && [ -n "$sources" ] || { echo "no compiler or no sources" >&2; exit 2; }

bad=0
for cc in "$@"; do
	name=$(basename "$cc")
	dir=$out/$name
	rm -rf "$dir"
	mkdir -p "$dir"
	for source in $sources; do
		"$cc" -std=c11 -ffreestanding -O2 -g -Wall -Wextra -Wpedantic -Wshadow -Werror -fno-stack-protector -Iinclude -Ilib \
			-c "$source" -o "$dir/$(basename "$source" .c).o"
	done
	"$cc" -ffreestanding -nostdlib -r "$dir"/*.o -o "$out/$name.o"
	nm=nm
	[[ $name != *-gcc ]] || nm=${cc%gcc}nm
	needed=$("$nm" -u "$out/$name.o" | awk '{ print $2 }' | sort)
	other=$(grep -vxE 'memcpy|memmove|memset|memcmp|' <<<"$needed" || true)
	echo "$name: needs ${needed//$'\n'/ }"
	[ -z "$other" ] || { echo "$name: not freestanding: ${other//$'\n'/ }"; bad=1; }
done
exit $bad
