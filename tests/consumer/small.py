"""The small libraries, shared and static, linked by what pkg-config says of them, and by what their pages add for a static program.

usage: small.py BUILD
"""
import sys

from installed import WARNINGS, installed, run

# a call that is refused at once, so that the program runs anywhere
PROGRAMS = {
    "pagehint-jemalloc": ("#include <pagehint/jemalloc.h>\n"
                          "int main(void)\n{\n\treturn pagehint_jemalloc_new(0, 0) == 0;\n}\n", ["-lm"]),
    "pagehint-xen": ("#include <pagehint/xencall.h>\n"
                     "int main(void)\n{\n\treturn pagehint_xencall_open(0, 0) == 0;\n}\n", []),
}


def main():
    done = 0
    with installed(sys.argv[1]) as (where, directory):
        for package, (program, more) in PROGRAMS.items():
            if not (where.libdir / f"pkgconfig/{package}.pc").is_file():
                print(f"{package} was not built here")
                continue
            source, out = directory / f"{package}.c", directory / package
            source.write_text(program)
            for link, flags in [([], where.flags("--cflags", "--libs", package=package)),
                                (["-static"], where.flags("--static", "--cflags", "--libs", package=package) + more)]:
                where.compile(["cc", *WARNINGS, *link, source, *flags, "-o", out])
                if (f"lib{package}.so.0.1]" in run(["readelf", "-d", out])) == bool(link):
                    sys.exit(f"{package}: linked {link} as it should not be")
                where.run(out)
                done += 1
    print(f"small libraries: {done} programs linked and run")
    if not done:
        print("not applicable: no small library was built")
    return 0 if done else 77


if __name__ == "__main__":
    sys.exit(main())
