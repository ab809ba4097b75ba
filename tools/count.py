#!/usr/bin/env python3
"""Counts what really ran and ends with the line `N passed, N failed, N skipped`.

usage: count.py [--stages FILE] [TESTLOG...]

TESTLOG   meson's testlog*.json. OK and EXPECTEDFAIL passed; FAIL, TIMEOUT, ERROR, INTERRUPT, UNEXPECTEDPASS failed; SKIP
          skipped, unless its output says `not applicable: why`: such a test is listed and not counted. A passing test one
          of whose cases was skipped counts as skipped by the same rule.
--stages  lines `passed NAME` or `failed NAME`, each counted as one.

Exit 1 when something failed, when nothing ran, and, with CI=true in the environment, when something was skipped; there nothing may be
missing, so what is not applicable counts as failed.
"""
import argparse
import json
import os
import pathlib
import re
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
NOT_APPLICABLE = re.compile(r"^not applicable: .*$", re.M)
SKIPPED_CASE = re.compile(r"^\[  SKIPPED \] (?!\d+ test)", re.M)


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.lines = []
        self.not_applicable = []

    def add_test(self, entry):
        output = entry.get("stdout", "") + "\n" + entry.get("stderr", "")
        why = NOT_APPLICABLE.findall(output)
        self.not_applicable.extend(line for line in why if line not in self.not_applicable)
        result, name = entry["result"], entry["name"]
        if result in PASSED and SKIPPED_CASE.search(output):
            result = "SKIP" if not why else result
        if result in PASSED:
            self.passed += 1
        elif result != "SKIP":
            self.failed += 1
            self.lines.append(f"failed: {name} ({result})")
        elif not why:
            self.skipped += 1
            self.lines.append(f"skipped: {name}")

    def add_log(self, path):
        """One JSON object a line. A log that is missing or cut short is a failure, not a test less."""
        try:
            entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            for entry in entries:
                self.add_test(entry)
        except (OSError, ValueError, KeyError) as error:
            self.failed += 1
            self.lines.append(f"failed: {path}: {error}")

    def add_stages(self, path):
        for line in path.read_text(encoding="utf-8").splitlines():
            word, _, name = line.partition(" ")
            if word == "passed":
                self.passed += 1
            else:
                self.failed += 1
                self.lines.append(f"failed: stage {name}")

    def report(self, strict):
        """The lines to print, the counting line last, and the exit code."""
        lines = [*self.not_applicable, *self.lines]
        if strict and self.not_applicable:
            lines.append("CI: nothing may be missing there")
            self.failed += len(self.not_applicable)
        bad = self.failed > 0
        if self.passed + self.failed + self.skipped == 0:
            lines.append("nothing ran, and that is a failure")
            bad = True
        if strict and self.skipped:
            lines.append("CI: a skipped test is a failure")
            bad = True
        lines.append(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return lines, 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", type=pathlib.Path)
    parser.add_argument("logs", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    count = Count()
    for log in args.logs:
        count.add_log(log)
    if args.stages:
        count.add_stages(args.stages)
    lines, code = count.report(os.environ.get("CI") == "true")
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
