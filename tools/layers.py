#!/usr/bin/env python3
"""Checks that the house stands: includes in lib/ point down the floors, never up or sideways between rooms.

usage: layers.py [ROOT]        prints one line a violation; exit 1 when there is one
"""
import pathlib
import re
import sys

FLOORS = {
    "base": 0,
    "memory": 1, "bitmap": 1, "discard": 1, "policy": 1,
    "alloc": 2, "virtio": 2, "pager": 2, "host": 2, "xen": 2,
    "report": 3, "join": 3, "vhost": 3,
    "jemalloc": 4,
    "xencall": 4,
}
TOP = 4  # lib/*.c
MAX_LINES = 400
SOURCES = {".c", ".h", ".cc", ".py", ".sh"}
ROOMS_OF_CODE = ["lib", "include", "tests", "bench", "examples", "tools", "fuzz", "peers"]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
PUBLIC_MAY_INCLUDE = {"stddef.h", "stdint.h"}


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found.group(1), found.group(2)


def check_internal(lib, path, where, target, headers):
    """One #include "target" in lib/: returns what is wrong with it, or None."""
    parts = pathlib.PurePosixPath(target).parts
    if len(parts) != 2 or ".." in parts:
        rooms = headers.get(parts[-1], [])
        several = f" ({len(rooms)} rooms have one: {', '.join(rooms)})" if len(rooms) > 1 else ""
        return f'write "room/header.h", not "{target}"{several}'
    room = parts[0]
    if room not in FLOORS:
        return f'"{target}": no such room'
    if not (lib / target).is_file():
        return f'"{target}": no such header'
    here = path.relative_to(lib).parts
    if len(here) == 1:
        return None
    own = here[0]
    if room == own or FLOORS[room] < FLOORS[own]:
        return None
    way = "sideways" if FLOORS[room] == FLOORS[own] else "up"
    return f'"{target}" points {way}: {own}/ is on floor {FLOORS[own]}, {room}/ on floor {FLOORS[room]}'


def check_lib(root):
    lib = root / "lib"
    files = sorted(p for p in lib.rglob("*") if p.suffix in {".c", ".h", ".cc"})
    headers = {}
    for path in files:
        if path.suffix == ".h":
            headers.setdefault(path.name, []).append(path.parent.name)
    for path in files:
        here = path.relative_to(lib).parts
        if len(here) > 2 or (len(here) == 2 and here[0] not in FLOORS):
            yield f"{path.relative_to(root)}: lives in no known room"
            continue
        if len(here) == 1 and path.suffix == ".h":
            yield f"{path.relative_to(root)}: a header belongs to a room"
        for number, kind, target in includes(path):
            where = f"{path.relative_to(root)}:{number}"
            if kind == '"':
                wrong = check_internal(lib, path, where, target, headers)
                if wrong:
                    yield f"{where}: {wrong}"
            elif target.startswith("pagehint/") and not (root / "include" / target).is_file():
                yield f"{where}: <{target}>: no such public header"
            elif (lib / target).is_file():
                yield f'{where}: write "{target}": it is an internal header'


def check_public(root):
    include = root / "include"
    for path in sorted(include.rglob("*.h")):
        for number, kind, target in includes(path):
            where = f"{path.relative_to(root)}:{number}"
            if kind == '"':
                yield f'{where}: a public header includes "{target}": use <pagehint/...>'
            elif target.startswith("pagehint/"):
                if not (include / target).is_file():
                    yield f"{where}: <{target}>: no such public header"
            elif target not in PUBLIC_MAY_INCLUDE:
                yield f"{where}: <{target}>: public headers include <stddef.h> and <stdint.h> only"


def check_lengths(root):
    for top in ROOMS_OF_CODE:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                lines = len(path.read_bytes().splitlines())
                if lines > MAX_LINES:
                    yield f"{path.relative_to(root)}: {lines} lines, {MAX_LINES} are allowed"


def violations(root):
    if not any((root / "lib").rglob("*.c")):
        return [f"{root}/lib: no sources: nothing was checked"]
    return [*check_lib(root), *check_public(root), *check_lengths(root)]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    found = violations(root)
    for line in found:
        print(line)
    print(f"layers: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
