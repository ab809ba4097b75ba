#!/usr/bin/env python3
"""Checks that four places name the same functions: the shared library, the symbol map, the headers, the man pages.

usage: symbols.py --root ROOT [--so FILE] [--archive FILE] [--small FILE..]

 - symbols exported by the .so = names in lib/pagehint.map = PAGEHINT_API declarations = bold names in man/*.3.scd
 - a small library of its own, lib/ROOM/NAME.map, has functions in headers and man pages that are not the core's; --small is
   a built one, libNAME.so*, which exports just these
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


def small_libraries(root):
    """Map file of each library beside the core -> its functions."""
    return {path: from_map(path) for path in sorted((root / "lib").glob("*/*.map"))}


def check_small(root, maps, places, built):
    for path, names in maps.items():
        if not names:
            yield f"{path.relative_to(root)}: names nothing: nothing was checked"
        for place, there in places.items():
            for name in sorted(names - there):
                yield f"{name}: not in {place} (but in {path.relative_to(root)})"
    for so in built:
        owners = [names for path, names in maps.items() if so.name.startswith(f"lib{path.stem}.so")]
        if len(owners) != 1:
            yield f"{so.name}: {len(owners)} maps lib/*/NAME.map fit its name, 1 was expected"
            continue
        yield from differences({so.name: from_so(so), "its map": owners[0]})


def check(root, so, archive, built=()):
    pages = [p for p in manpages.pages(root / "man") if p.section == "3"]
    declared = from_headers(root)
    documented = set().union(*(p.documented() for p in pages))
    maps = small_libraries(root)
    yield from check_small(root, maps, {"the headers": declared, "the man pages": documented}, built)
    elsewhere = set().union(*maps.values())
    sets = {
        "the map": from_map(root / "lib" / "pagehint.map"),
        "the headers": declared - elsewhere,
        "the man pages": documented - elsewhere,
    }
    if so:
        sets["the library"] = from_so(so)
    yield from differences(sets)
    for page in manpages.pages(root / "man"):
        for name in sorted(page.documented() - declared):
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
    parser.add_argument("--small", type=pathlib.Path, nargs="*", default=[])
    args = parser.parse_args()
    found = list(check(args.root, args.so, args.archive, args.small))
    for line in found:
        print(line)
    print(f"symbols: {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
