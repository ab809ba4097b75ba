#!/bin/bash
# format.sh [--check] : all C and C++ of the tree through clang-format
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[ "${1:-}" != --check ] || mode=(--dry-run -Werror)
mapfile -t files < <(find include lib tests examples bench fuzz peers -name '*.c' -o -name '*.h' -o -name '*.cc' 2>/dev/null | sort)
[ ${#files[@]} -gt 0 ] || { echo "no sources were found"; exit 1; }
clang-format "${mode[@]}" "${files[@]}"
