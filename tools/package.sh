#!/bin/bash
# package.sh : builds the Debian packages in a copy of the tree, asks lintian, unpacks them, and compiles against what they hold.
# Nothing is installed, nothing in the tree changes; packages and logs are left in build/package. The last line counts.
set -uo pipefail
cd "$(dirname "$0")/.."
top=$PWD
out=$top/build/package
stages=$out/stages
root=$out/root
jobs=${JOBS:-2}
rm -rf "$out"
mkdir -p "$out/copy" "$root"
: >"$stages"

# stage NAME COMMAND.. : what a failed one said is shown
stage() {
	local name=$1 word=passed
	shift
	"$@" >"$out/$name.log" 2>&1 || word=failed
	echo "$word $name" | tee -a "$stages"
	[ $word = passed ] || tail -n 40 "$out/$name.log" | sed 's/^/    /'
	[ $word = passed ]
}

# What git knows or would know, or, in an unpacked archive, everything but build directories
copy() {
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git ls-files -z --cached --others --exclude-standard --deduplicate
	else
		find . -path './build*' -prune -o -type f -print0
	fi | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
		xargs -0 cp --parents -t "$out/copy"
}

build() ( cd "$out/copy" && DEB_BUILD_OPTIONS="nocheck parallel=$jobs" dpkg-buildpackage -us -uc -b )

ask_lintian() { lintian --allow-root --info --fail-on error,warning "$out"/*.changes; }

# Every package but those of debug symbols, into one tree
unpack() {
	local package
	for package in "$out"/*.deb; do
		[[ $package == *-dbgsym_* ]] || dpkg -x "$package" "$root" || return 1
	done
}

# What a .pc file asks for is in a package that its own package depends on: pkg-config wants it, too
depends() {
	local package pc name owner n=0
	for package in "$out"/*-dev_*.deb; do
		for pc in $(dpkg-deb -c "$package" | grep -o 'usr/.*\.pc$'); do
			for name in $(sed -n 's/^Requires[^:]*://p' "$root/$pc" | tr , '\n' | awk '{ print $1 }'); do
				owner=lib$name-dev
				[[ $name == pagehint* ]] || owner=$(dpkg -S "*/pkgconfig/$name.pc" | cut -d: -f1)
				dpkg-deb -f "$package" Depends | tr , '\n' | awk '{ print $1 }' | grep -qx -- "$owner" ||
					{ echo "$(basename "$package"): $pc asks for $name, of $owner"; return 1; }
				n=$((n + 1))
			done
		done
	done
	echo "$n names that .pc files ask for"
	[ $n -gt 0 ]
}

# The examples that a package carries compile against the headers that it carries
examples() {
	local source n=0
	for source in "$root"/usr/share/doc/*/examples/*.c "$root"/usr/share/doc/*/examples/*/*.c; do
		cc -std=gnu11 -Wall -Wextra -Werror "-I$root/usr/include" "-I$(dirname "$source")" "-I$(dirname "$source")/.." \
			-c "$source" -o "$out/example.o" || return 1
		n=$((n + 1))
	done
	echo "$n examples compiled"
	[ $n -gt 0 ]
}

balloon() { LD_LIBRARY_PATH=$(echo "$root"/usr/lib/*/) "$root/usr/bin/pagehint-balloon" --version; }

if stage copy copy && stage build build; then
	stage lintian ask_lintian
	if stage unpack unpack; then
		stage depends depends
		stage embed python3 tests/consumer/readme.py "$root" "$top"
		for compiler in gcc clang; do
			! command -v $compiler >/dev/null || stage link-$compiler python3 tests/consumer/link.py "$root" $compiler
		done
		stage small python3 tests/consumer/small.py "$root"
		stage examples examples
		stage balloon balloon
	fi
fi
rm -rf "$out/copy"
python3 tools/count.py --stages "$stages"
