#!/usr/bin/env python3
"""Compares two trees of files byte for byte.

usage: same_bytes.py A B      exit 1 when a file is in one alone, differs in content, kind or target, or there are none
"""
import pathlib
import sys

SHOWN = 32  # bytes around the first difference


def content(path):
    """What is compared of a path: where a link points, or the bytes of a file."""
    return ("link", str(path.readlink()).encode()) if path.is_symlink() else ("file", path.read_bytes())


def members(root):
    return {path.relative_to(root): path for path in root.rglob("*") if path.is_symlink() or path.is_file()}


def difference(a, b):
    """The first difference of two contents, in words; None when there is none."""
    if a[0] != b[0]:
        return f"a {a[0]} and a {b[0]}"
    if a[1] == b[1]:
        return None
    at = next((i for i, (x, y) in enumerate(zip(a[1], b[1])) if x != y), min(len(a[1]), len(b[1])))
    start = max(0, at - SHOWN // 2)
    return f"differ from byte {at} on: {a[1][start:start + SHOWN]!r} and {b[1][start:start + SHOWN]!r}"


def compare(a, b):
    """A line for each thing that is wrong, and how many paths both have."""
    left, right = members(a), members(b)
    wrong = [f"{name}: in {a} alone" for name in sorted(left.keys() - right.keys())]
    wrong += [f"{name}: in {b} alone" for name in sorted(right.keys() - left.keys())]
    both = sorted(left.keys() & right.keys())
    for name in both:
        found = difference(content(left[name]), content(right[name]))
        if found:
            wrong.append(f"{name}: {found}")
    return wrong, len(both)


def main():
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    wrong, both = compare(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    print("\n".join(wrong))
    print(f"same bytes: {both} files compared, {len(wrong)} wrong")
    return 1 if wrong or not both else 0


if __name__ == "__main__":
    sys.exit(main())
