#!/bin/bash
# abi.sh dump | check [BUILD] : the kept ABI is abi/libpagehint.abi; `dump` writes it anew, at a release
set -euo pipefail
cd "$(dirname "$0")/.."
python3 tools/abi.py "$1" "${2:-build}/lib/libpagehint.so" abi/libpagehint.abi \
	--include include/pagehint --suppressions abi/suppressions.ini
