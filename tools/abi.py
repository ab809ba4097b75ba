#!/usr/bin/env python3
"""Keeps the ABI of the last release, and compares a fresh build with it.

usage: abi.py dump  SO DUMP --include DIR                       writes DUMP (abidw)
       abi.py check SO DUMP --include DIR [--suppressions FILE]  exit 1 when something changed that is not an addition

While there is no DUMP there is no release to keep faith with: that is said, and it is no error.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile


def dump(so, out, include):
    subprocess.run(["abidw", "--headers-dir", include, "--drop-private-types", "--no-show-locs", "--no-corpus-path",
                    "--no-comp-dir-path", "--out-file", out, so], check=True)
    if out.stat().st_size == 0 or b"elf-symbol" not in out.read_bytes():
        raise SystemExit(f"{so}: abidw found no symbol")


def check(so, kept, include, suppressions):
    if not kept.is_file():
        print(f"no release to compare with: {kept} does not exist")
        return 0
    with tempfile.TemporaryDirectory() as directory:
        fresh = pathlib.Path(directory) / "fresh.abi"
        dump(so, fresh, include)
        command = ["abidiff", "--no-added-syms"]
        if suppressions:
            command += ["--suppressions", suppressions]
        return 1 if subprocess.run([*command, kept, fresh]).returncode != 0 else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["dump", "check"])
    parser.add_argument("so", type=pathlib.Path)
    parser.add_argument("dump", type=pathlib.Path)
    parser.add_argument("--include", type=pathlib.Path, required=True)
    parser.add_argument("--suppressions", type=pathlib.Path)
    args = parser.parse_args()
    if args.verb == "dump":
        dump(args.so, args.dump, args.include)
        return 0
    return check(args.so, args.dump, args.include, args.suppressions)


if __name__ == "__main__":
    sys.exit(main())
