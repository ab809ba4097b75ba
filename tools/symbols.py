#!/usr/bin/env python3
"""Checks that four places name the same functions: the shared library, the symbol map, the headers, the man pages.

usage: symbols.py --root ROOT [--so FILE] [--archive FILE] [--side FILE]..

 - symbols exported by the .so = names in lib/pagehint.map; names in lib/*.map and in lib/*/*.map, those of the small libraries
   beside it = PAGEHINT_API declarations = bold names in man/*.3.scd
 - --side FILE: a small library, libNAME.so; its symbols = names in the NAME.map under lib/
 - every global symbol that the static archive defines starts with pagehint_ or ph_
 - every page of section 3 has its eight sections
 - every error that a header names in the Return: of a function stands in ERRORS of the page that owns it
"""
import argparse
import pathlib
import re
import subprocess
import sys

import manpages

DECLARATION = re.compile(r"PAGEHINT_API\b(?!_)[^;{}]*?\b(pagehint_\w+)\s*\(")
DOC = re.compile(r"/\*\*(.*?)\*/", re.S)
DOC_NAME = re.compile(r"^\s*\*?\s*(pagehint_\w+) - ", re.M)
RETURN = re.compile(r"\bReturn(?:, [^:\n]*)?:(.*?)(?=\b(?:Thread|Cost|Since|Source)\b[^:\n]*:|\Z)", re.S)
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "RETURN VALUE", "ERRORS", "THREADS", "EXAMPLE", "SEE ALSO"]
ERROR = re.compile(r"-(E[A-Z0-9]+)\b")


def nm(*args):
    out = subprocess.run(["nm", *map(str, args)], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        fields = line.split()
        if len(fields) == 3:
            yield fields[1], fields[2].split("@")[0]


def from_so(path):
    return {name for kind, name in nm("-D", "--defined-only", path) if kind != "A"}


def from_map(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    return set(re.findall(r"\b(pagehint_\w+)\s*;", text))


def maps(root):
    """NAME -> the names in NAME.map, of the library and of the small ones beside it."""
    return {path.stem: from_map(path) for path in sorted((root / "lib").rglob("*.map"))}


def headers(root):
    return sorted((root / "include" / "pagehint").glob("*.h"))


def from_headers(root):
    names = set()
    for path in headers(root):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
        names.update(DECLARATION.findall(re.sub(r"^\s*#.*$", "", text, flags=re.M)))
    return names


def errors_of(root):
    """Function -> the errors its Return: names."""
    found = {}
    for path in headers(root):
        for comment in DOC.findall(path.read_text(encoding="utf-8")):
            name = DOC_NAME.search(comment)
            returns = RETURN.search(comment)
            if name and returns:
                found[name.group(1)] = set(ERROR.findall(returns.group(1)))
    return found


def differences(sets):
    """Each place against the union of all of them."""
    everything = set().union(*sets.values())
    for place, names in sets.items():
        for name in sorted(everything - names):
            others = ", ".join(other for other in sets if name in sets[other])
            yield f"{name}: not in {place} (but in {others})"
    if not everything:
        yield "no symbol anywhere: nothing was checked"


def missing_errors(root, pages):
    for name, wanted in sorted(errors_of(root).items()):
        owners = [p for p in pages if name in p.owned()] or [p for p in pages if name in p.documented()]
        if not owners:
            continue  # differences() tells
        stated = set(re.findall(r"\b(E[A-Z0-9]+)\b", "\n".join(p.sections.get("ERRORS", "") for p in owners)))
        for error in sorted(wanted - stated):
            yield f"{owners[0].path.name}: ERRORS does not have {error}, which {name} may return"


def check_side(root, side):
    """A small library and its map."""
    name = side.name.split(".")[0].removeprefix("lib")
    there = maps(root)
    if name not in there:
        yield f"{side.name}: no {name}.map under lib/"
        return
    yield from differences({f"the library {name}": from_so(side), f"{name}.map": there[name]})


def check(root, so, archive, sides=()):
    pages = [p for p in manpages.pages(root / "man") if p.section == "3"]
    sets = {
        "the maps": set().union(*maps(root).values()),
        "the headers": from_headers(root),
        "the man pages": set().union(*(p.documented() for p in pages)),
    }
    if so:
        yield from differences({"the library": from_so(so), "pagehint.map": from_map(root / "lib" / "pagehint.map")})
    for side in sides:
        yield from check_side(root, side)
    yield from differences(sets)
    for page in manpages.pages(root / "man"):
        for name in sorted(page.documented() - sets["the headers"]):
            if page.section != "3":
                yield f"{page.path.name}: names {name}, which no header declares"
    for page in pages:
        for section in SECTIONS:
            if section not in page.sections:
                yield f"{page.path.name}: no section {section}"
    yield from missing_errors(root, pages)
    if archive:
        names = {name for kind, name in nm("-g", "--defined-only", archive)}
        if not names:
            yield f"{archive}: defines nothing: nothing was checked"
        for name in sorted(names):
            if not name.startswith(("pagehint_", "ph_")):
                yield f"{archive.name}: defines {name}, which is neither pagehint_* nor ph_*"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--so", type=pathlib.Path)
    parser.add_argument("--archive", type=pathlib.Path)
    parser.add_argument("--side", type=pathlib.Path, action="append", default=[])
    args = parser.parse_args()
    found = list(check(args.root, args.so, args.archive, args.side))
    for line in found:
        print(line)
    print(f"symbols: {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
