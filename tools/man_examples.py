#!/usr/bin/env python3
"""Writes the EXAMPLE program of every man page of section 3 to a file of its own.

usage: man_examples.py DIR OUT     DIR/*.3.scd -> OUT/<page>.c; exit 1 when a page has none, or there is no page
"""
import pathlib
import sys

import manpages


def write_examples(directory, out):
    out.mkdir(parents=True, exist_ok=True)
    written, wrong = 0, 0
    for page in manpages.pages(directory):
        if page.section != "3":
            continue
        try:
            (out / f"{page.name}.c").write_text(page.example(), encoding="utf-8")
            written += 1
        except ValueError as error:
            print(f"{page.path}: {error}")
            wrong += 1
    print(f"examples: {written} written, {wrong} wrong")
    return 0 if written and not wrong else 1


def main():
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    return write_examples(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
