#!/usr/bin/env python3
"""Compiles each public header alone: strict C11 and C17, C++17, and without padding in any struct; and looks that no two
define the same macro, which a compiler lets pass as long as they agree.

usage: headers.py --include DIR COMPILER      COMPILER is gcc or clang; g++ or clang++ must be beside it

clang also parses the headers for 32-bit and big-endian targets (freestanding: no C library of them is needed).
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-pedantic-errors", "-Werror", "-fsyntax-only"]
C_ONLY = ["-Wstrict-prototypes", "-Wmissing-prototypes"]
UNIT = "#include <pagehint/{}>\ntypedef int not_an_empty_unit;\n"
TARGETS = ["i386-linux-gnu", "arm-linux-gnueabihf", "aarch64-linux-gnu", "riscv64-linux-gnu", "s390x-linux-gnu"]


def ways(compiler):
    """name -> command; the header's #include arrives on stdin."""
    cxx = {"gcc": "g++", "clang": "clang++"}[compiler]
    found = {}
    for std in ("c11", "c17"):
        found[std] = [compiler, f"-std={std}", "-x", "c", *STRICT, *C_ONLY]
    found["c11 padded"] = [compiler, "-std=c11", "-x", "c", *STRICT, "-Wpadded"]
    found["c++17"] = [cxx, "-std=c++17", "-x", "c++", *STRICT]
    if compiler == "clang":
        for target in TARGETS:
            found[target] = [compiler, f"--target={target}", "-ffreestanding", "-std=c11", "-x", "c", *STRICT]
    return found


def doubles(headers):
    """One line for each macro that two headers define."""
    where = {}
    for header in headers:
        for name in set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", header.read_text(encoding="utf-8"), re.M)):
            where.setdefault(name, []).append(header.name)
    return [f"{name} is defined in {', '.join(found)}" for name, found in sorted(where.items()) if len(found) > 1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", type=pathlib.Path, required=True)
    parser.add_argument("compiler", choices=["gcc", "clang"])
    args = parser.parse_args()
    if shutil.which(args.compiler) is None:
        print(f"{args.compiler} is not installed")
        return 77
    headers = sorted((args.include / "pagehint").glob("*.h"))
    tried = wrong = 0
    for header in headers:
        for name, command in ways(args.compiler).items():
            done = subprocess.run([*command, f"-I{args.include}", "-"], input=UNIT.format(header.name),
                                  capture_output=True, text=True)
            tried += 1
            if done.returncode != 0:
                wrong += 1
                print(f"{header.name} as {name}:\n{done.stderr}")
    for double in doubles(headers):
        wrong += 1
        print(double)
    print(f"headers: {len(headers)} headers, {tried} ways tried, {wrong} wrong")
    return 0 if tried and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
