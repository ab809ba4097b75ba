#!/bin/bash
# Fetches the source that subprojects/cmocka.wrap names, from wherever this machine gets its packages, but their sources. Nothing
# of the system is changed; the wrap knows the hash.
set -euo pipefail
cd "$(dirname "$0")/../subprojects"
file=$(sed -n 's/^source_filename = //p' cmocka.wrap)
[ ! -f "packagefiles/$file" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/parts"
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
	[ -f "$list" ] || continue
	case $list in
	*.list) sed -n 's/^deb /deb-src /p' "$list" >>"$work/parts/all.list" ;;
	*.sources) sed 's/^Types:.*/Types: deb-src/' "$list" >"$work/parts/$(basename "$list")" ;;
	esac
done
from=(-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/parts" -o Dir::State::lists="$work/lists"
	-o APT::Sandbox::User=root)
apt-get "${from[@]}" -q update
cd "$work"
apt-get "${from[@]}" -q source --download-only cmocka
cd - >/dev/null
mv "$work/$file" packagefiles/
