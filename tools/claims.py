#!/usr/bin/env python3
"""SECURITY.md's table of claims: each claim names tests, and each test that is named exists.

usage: claims.py BUILD ROOT

A row is | claim | `NAME`, `NAME: CASE`, `fuzz TARGET` |. NAME is a test that the build knows, CASE a function that the test's
source lists (tests/KIND/REST_test.c of KIND-REST), TARGET a script in fuzz/.
Exit 1 when one is missing, when a claim has no test, or when there are no claims.
"""
import json
import pathlib
import re
import sys

HEADING = "## Claims, and the tests that show them"
ROW = re.compile(r"^\| (.+) \| (.+) \|$")


def rows(text):
    """(claim, [what is named]) of every row of the table; the first two lines are its head."""
    section = text.partition(HEADING + "\n")[2].split("\n## ")[0]
    table = [ROW.match(line) for line in section.splitlines() if line.startswith("|")][2:]
    return [(row.group(1), re.findall(r"`([^`]+)`", row.group(2))) if row else ("a row that is none", []) for row in table]


class Tests:
    """What there is: names of the build, cases of the sources, targets of fuzz/."""

    def __init__(self, names, root):
        self.names, self.root = set(names), root

    def source(self, name):
        kind, _, rest = name.partition("-")
        return self.root / "tests" / kind / f"{rest.replace('-', '_')}_test.c"

    def missing(self, named):
        """What is wrong with a name; None when nothing is."""
        if named.startswith("fuzz "):
            target = named.removeprefix("fuzz ")
            return None if (self.root / "fuzz" / f"{target}.sh").is_file() else "there is no such target"
        name, _, case = named.partition(": ")
        if name not in self.names:
            return "there is no such test"
        if not case:
            return None
        source = self.source(name)
        if not source.is_file():
            return f"{source.name} has the cases, and is missing"
        listed = re.search(rf"\bcmocka_unit_test\w*\(\s*{re.escape(case)}\b", source.read_text(encoding="utf-8"))
        return None if listed else f"{source.name} lists no such case"


def check(text, tests):
    """A line for each thing that is wrong, and how many claims there are."""
    claims, wrong = rows(text), []
    for claim, named in claims:
        if not named:
            wrong.append(f"{claim}: no test is named")
        wrong += [f"{claim}: {one}: {why}" for one in named if (why := tests.missing(one))]
    return wrong, len(claims)


def main():
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    build, root = map(pathlib.Path, sys.argv[1:])
    names = {test["name"] for test in json.loads((build / "meson-info" / "intro-tests.json").read_text(encoding="utf-8"))}
    wrong, claims = check((root / "SECURITY.md").read_text(encoding="utf-8"), Tests(names, root))
    print("\n".join(wrong))
    print(f"claims: {claims}, {len(wrong)} wrong")
    return 1 if wrong or not claims else 0


if __name__ == "__main__":
    sys.exit(main())
