"""The README's embedding example, compiled with the README's own command line and run.

usage: readme.py BUILD SOURCE_ROOT
"""
import pathlib
import re
import sys

from installed import installed, run

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def main():
    build, root = sys.argv[1], pathlib.Path(sys.argv[2])
    blocks = BLOCK.findall((root / "README.md").read_text(encoding="utf-8"))
    programs = [text for kind, text in blocks if kind == "c" and "main(" in text]
    commands = [line for kind, text in blocks if kind == "sh" for line in text.splitlines() if line.startswith("cc ")]
    if len(programs) != 1 or len(commands) != 1:
        sys.exit(f"README.md has {len(programs)} programs and {len(commands)} lines that start with cc; 1 of each is wanted")
    lines = len(programs[0].partition("\n{\n")[2].splitlines()) - 1
    if not 0 < lines <= 25:
        sys.exit(f"README.md: main has {lines} lines; it is meant to be read in a minute: 25")
    command = commands[0]
    source = re.search(r"\S+\.c\b", command).group(0)
    program = re.search(r"-o (\S+)", command).group(1)
    with installed(build) as (where, directory):
        (directory / source).write_text(programs[0])
        run(command, shell=True, cwd=directory, env=where.env)
        where.run(directory / program)
    print(f"README: {command}: ran")
    return 0


if __name__ == "__main__":
    sys.exit(main())
