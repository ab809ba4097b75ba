"""The EXAMPLE program of every man page of section 3, compiled against the installed library and run.

usage: examples.py BUILD SOURCE_ROOT
"""
import pathlib
import subprocess
import sys

from installed import WARNINGS, installed

import man_examples
import manpages


def installed_pages(where, man):
    """Every page, and a name for every function in a SYNOPSIS, is installed and says something."""
    for page in manpages.pages(man):
        for name in {page.name} | (page.owned() if page.section == "3" else set()):
            found = list(where.where.rglob(f"man{page.section}/{name}.{page.section}"))
            if len(found) != 1 or found[0].stat().st_size == 0:
                sys.exit(f"{name}({page.section}): {len(found)} pages installed")


def package_of(where, source):
    """The library that a program links: a small one where it includes its header, else the library."""
    text = source.read_text(encoding="utf-8")
    for pc in where.libdir.glob("pkgconfig/pagehint-*.pc"):
        if f"<pagehint/{pc.stem.removeprefix('pagehint-')}.h>" in text:
            return pc.stem
    return "pagehint"


def main():
    build, root = sys.argv[1], pathlib.Path(sys.argv[2])
    wrong = ran = 0
    with installed(build) as (where, directory):
        installed_pages(where, root / "man")
        if man_examples.write_examples(root / "man", directory / "examples") != 0:
            return 1
        for source in sorted((directory / "examples").glob("*.c")):
            program = source.with_suffix("")
            flags = where.flags("--cflags", "--libs", package=package_of(where, source))
            done = subprocess.run(["cc", *WARNINGS, "-g", source, *flags, "-o", program],
                                  env=where.env, capture_output=True, text=True)
            if done.returncode == 0:
                done = subprocess.run([program], env=where.env, capture_output=True, text=True, timeout=60)
            ran += 1
            if done.returncode != 0:
                wrong += 1
                print(f"{source.stem}(3): its EXAMPLE failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    print(f"examples: {ran} compiled and run, {wrong} wrong")
    return 0 if ran and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
