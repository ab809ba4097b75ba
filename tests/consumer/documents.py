"""The programs of docs/: each block that opens with ```c NAME.c is a whole program, compiled with the page's own command and run.

usage: documents.py BUILD SOURCE_ROOT

A program that ends with 77 says `not applicable: why`; one that cannot be run here is compiled all the same.
"""
import pathlib
import re
import subprocess
import sys

from installed import WARNINGS, installed, run

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)


class Document:
    """Programs by name, and the command of a page, which must name one of them."""

    def __init__(self, path):
        self.text = path.read_text(encoding="utf-8")
        blocks = BLOCK.findall(self.text)
        self.programs = {}
        for info, body in blocks:
            if info.split()[:1] == ["c"]:
                name = info.removeprefix("c").strip()
                if not re.fullmatch(r"[\w-]+\.c", name) or name in self.programs or "main(" not in body:
                    raise SystemExit(f"{path}: a block of C is one program, with a name of its own: ```{info}")
                self.programs[name] = body
        commands = [line for info, body in blocks if info == "sh" for line in body.splitlines() if line.startswith("cc ")]
        if len(commands) != 1 or not any(name in commands[0].split() for name in self.programs):
            raise SystemExit(f"{path}: one line that begins with cc is wanted, for one of its programs: {commands}")
        self.command, self.named = commands[0], next(name for name in self.programs if name in commands[0].split())

    def command_for(self, name):
        """The page's command for another of its programs, with every warning an error."""
        line = self.command.replace(self.named.removesuffix(".c"), name.removesuffix(".c"))
        return line.replace("cc ", f"cc {' '.join(WARNINGS)} ", 1)


def try_program(document, name, where, directory):
    """Compiles it and runs it: "run" or "not applicable"."""
    (directory / name).write_text(document.programs[name], encoding="utf-8")
    run(document.command_for(name), shell=True, cwd=directory, env=where.env)
    done = subprocess.run([directory / name.removesuffix(".c")], env=where.env, capture_output=True, text=True, timeout=60)
    print(f"{name}: {done.stdout}{done.stderr}", end="")
    if done.returncode == 77 and done.stdout.startswith("not applicable: "):
        return "not applicable"
    if done.returncode != 0:
        sys.exit(f"{name} ended with {done.returncode}")
    return "run"


def main():
    build, root = sys.argv[1], pathlib.Path(sys.argv[2])
    ends = []
    with installed(build) as (where, directory):
        for page in sorted((root / "docs").glob("*.md")):
            document = Document(page)
            ends += [try_program(document, name, where, directory) for name in document.programs]
    print(f"documents: {len(ends)} programs compiled, {ends.count('run')} run")
    return 0 if ends.count("run") else 1


if __name__ == "__main__":
    sys.exit(main())
