#!/usr/bin/env python3
"""Reads man/*.scd: which pages there are, which functions each owns, its sections, its EXAMPLE.

usage: manpages.py DIR      one line a page: name section alias...   (man/meson.build installs from this)
"""
import pathlib
import re
import sys

HEADING = re.compile(r"^# (.+)$")
BOLD_CALL = re.compile(r"\*(pagehint_\w+)\*\\?\((?!\d\))")
ANY_CALL = re.compile(r"\b(pagehint_\w+)\*?\\?\((?!\d\))")
FENCE = "```"


class Page:
    def __init__(self, path):
        self.path = path
        self.name, self.section = path.name[: -len(".scd")].rsplit(".", 1)
        self.text = path.read_text(encoding="utf-8")
        self.sections = self._split()

    def _split(self):
        """Section title -> text; a # inside a literal block is not a heading."""
        sections, title, literal = {}, None, False
        for line in self.text.splitlines():
            literal ^= line.strip() == FENCE
            heading = None if literal else HEADING.match(line)
            if heading:
                title = heading.group(1).strip()
                sections[title] = []
            elif title is not None:
                sections[title].append(line)
        return {title: "\n".join(lines) for title, lines in sections.items()}

    def documented(self):
        """Functions named in bold anywhere on the page."""
        return set(BOLD_CALL.findall(self.text))

    def owned(self):
        """Functions whose page this is: those in its SYNOPSIS, of the ones in bold."""
        return set(ANY_CALL.findall(self.sections.get("SYNOPSIS", ""))) & self.documented()

    def example(self):
        """The one program in the EXAMPLE section; ValueError says what is wrong with it."""
        body = self.sections.get("EXAMPLE")
        if body is None:
            raise ValueError("no EXAMPLE section")
        blocks, inside, block = [], False, []
        for line in body.splitlines():
            if line.strip() == FENCE:
                if inside:
                    blocks.append("\n".join(block) + "\n")
                inside, block = not inside, []
            elif inside:
                block.append(line)
        if inside:
            raise ValueError("EXAMPLE: a literal block is not closed")
        if len(blocks) != 1:
            raise ValueError(f"EXAMPLE: {len(blocks)} literal blocks, one program is wanted")
        if not re.search(r"\bmain\s*\(", blocks[0]):
            raise ValueError("EXAMPLE: the program has no main()")
        if re.search(r"\\", blocks[0].replace("\\\\", "")):
            raise ValueError("EXAMPLE: a lone backslash is dropped by scdoc: write two")
        return blocks[0].replace("\\\\", "\\")


def pages(directory):
    return [Page(path) for path in sorted(pathlib.Path(directory).glob("*.scd"))]


def list_pages(directory):
    found = pages(directory)
    names = {page.name for page in found}
    taken = set()
    for page in found:
        aliases = sorted((page.owned() if page.section == "3" else set()) - names - taken)
        taken.update(aliases)
        print(" ".join([page.name, page.section, *aliases]))
    return 0


def main():
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    return list_pages(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
