#!/bin/bash
# How much of lib/ the tests run: a build that counts lines and branches, the suites that test the library itself, and gcovr.
# Headers and the allocator's second build (tests/model/meson.build) are counted with the rest. Left out are `house`, `consumer`
# and `instructions`, which test tools, installed copies and machine code. The last line counts tests and bounds.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=build-coverage
jobs=${JOBS:-$(nproc)}
suites=(unit model fault hostile conformance concurrency integration)

again=()
[ ! -f $dir/build.ninja ] || again=(--reconfigure)
mkdir -p $dir
# threads count at the same time: counters must be atomic, or lines that ran may read as if they had not
CC=gcc CXX=g++ meson setup "${again[@]}" -Db_coverage=true -Dc_args=-fprofile-update=atomic -Dman=disabled -Dbench=disabled \
	$dir >$dir/setup.log 2>&1 || { cat $dir/setup.log; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
ninja -C $dir -j "$jobs" --quiet
find $dir -name '*.gcda' -delete
rm -f $dir/meson-logs/testlog.json $dir/coverage.json
echo "failed coverage.summary" >$dir/stages # until there is one
meson test -C $dir --num-processes "$jobs" --print-errorlogs "${suites[@]/#/--suite=}" >$dir/tests.log 2>&1 || cat $dir/tests.log
gcovr --root . --filter lib/ --json-summary $dir/coverage.json --html-details $dir/coverage.html $dir -o $dir/coverage.txt \
	>$dir/gcovr.log 2>&1 || cat $dir/gcovr.log
python3 tools/coverage.py --stages $dir/stages $dir/coverage.json || echo "lines that did not run: $dir/coverage.html"
python3 tools/count.py --stages $dir/stages $dir/meson-logs/testlog.json
