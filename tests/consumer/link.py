"""A small program against the installed library: shared and static, C11, C17 and C++17.

usage: link.py BUILD COMPILER      COMPILER is gcc or clang
"""
import shutil
import sys

from installed import WARNINGS, installed, run

PROGRAM = """%s
#include <stdio.h>
#include <string.h>

int main(void)
{
	char wanted[32];
	snprintf(wanted, sizeof(wanted), "%%d.%%d.%%d", PAGEHINT_VERSION_MAJOR, PAGEHINT_VERSION_MINOR, PAGEHINT_VERSION_PATCH);
	if (strcmp(wanted, pagehint_version()) != 0) {
		printf("header says %%s, library says %%s\\n", wanted, pagehint_version());
		return 1;
	}
	return 0;
}
"""


def shared(where, compiler, std, source, out):
    where.compile([compiler, f"-std={std}", *WARNINGS, source, *where.flags("--cflags", "--libs"), "-o", out])
    needed = run(["readelf", "-d", out])
    if "libpagehint.so.0.1]" not in needed:
        sys.exit(f"{out.name} does not need libpagehint.so.0.1:\n{needed}")


def static(where, compiler, std, source, out):
    where.compile([compiler, f"-std={std}", *WARNINGS, "-static", source, *where.flags("--static", "--cflags", "--libs"),
                   "-o", out])
    if "NEEDED" in run(["readelf", "-d", out]):
        sys.exit(f"{out.name} is not static")


def main():
    build, compiler = sys.argv[1:]
    if shutil.which(compiler) is None:
        print(f"not applicable: {compiler} is not installed")
        return 77
    cxx = {"gcc": "g++", "clang": "clang++"}[compiler]
    with installed(build) as (where, directory):
        program = PROGRAM % "\n".join(f"#include <pagehint/{name}>" for name in where.headers())
        done = 0
        for std, driver, suffix in [("c11", compiler, ".c"), ("c17", compiler, ".c"), ("c++17", cxx, ".cc")]:
            source = directory / f"consumer{suffix}"
            source.write_text(program)
            for link in (shared, static):
                out = directory / f"{link.__name__}-{std}"
                link(where, driver, std, source, out)
                where.run(out)
                print(f"{out.name}: compiled with {driver}, linked, run")
                done += 1
        return 0 if done == 6 else 1


if __name__ == "__main__":
    sys.exit(main())
