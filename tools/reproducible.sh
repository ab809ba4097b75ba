#!/bin/bash
# reproducible.sh : the release configuration is built twice, and what the two builds install must be the same byte for byte.
# Everything that must not matter differs: where the source lies, where it is built and how deep, the umask, language, time zone
# and number of jobs. What may matter is the same: compiler, options, and SOURCE_DATE_EPOCH, the date of the man pages.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y meson.build)}
export CCACHE_DISABLE=1 # or the second build is the first one's copy

# one SOURCE BUILD INSTALLED JOBS : a build in a copy of the source
one() {
	mkdir -p "$1"
	cp -r include lib man meson.build meson_options.txt tools "$1"
	meson setup --buildtype=release -Dtests=disabled -Dbench=disabled "$2" "$1"
	ninja -C "$2" -j "$4"
	meson install -C "$2" --quiet --no-rebuild --destdir "$3"
}

one "$scratch/a" "$scratch/a/build" "$scratch/installed-a" 2
(umask 077 && LC_ALL=C TZ=Pacific/Auckland one "$scratch/elsewhere/deeper/source" "$scratch/b" "$scratch/installed-b" 1)
python3 tools/same_bytes.py "$scratch/installed-a" "$scratch/installed-b"
