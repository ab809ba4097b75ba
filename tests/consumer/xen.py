"""Builds the library without Xen, without Xen's headers, and as it comes: each builds, and says what it is.

usage: xen.py BUILD SOURCE
"""
import os
import subprocess
import sys
import tempfile
import pathlib

from installed import WARNINGS, installed, run

FEATURES = """#include <pagehint/pagehint.h>
#include <pagehint/xen.h>
#include <errno.h>
int main(void)
{
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts), .domid = 5 };
	struct pagehint_xen *xen;
	int r = pagehint_xen_open(&opts, &xen);
	if (r != -EOPNOTSUPP && r != -ENODEV)
		return 99;
	return (int)(pagehint_features() / PAGEHINT_FEATURE_XEN & 3) | (r == -EOPNOTSUPP ? 4 : 0);
}
"""
SMALL = """#include <pagehint/xencall.h>
#include <errno.h>
int main(void)
{
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts), .domid = 5 };
	struct pagehint_xen *xen;
	int r = pagehint_xencall_open(&opts, &xen);
	return r != -ENODEV && r != -EOPNOTSUPP;
}
"""


def answer(program):
    return subprocess.run([program], timeout=60).returncode


def build_with(source, directory, options, env):
    """The features that a build of the library alone has, by a program that is linked to it."""
    build = directory / "build"
    run(["meson", "setup", "-Dtests=disabled", "-Dbench=disabled", "-Dman=disabled", "-Ddefault_library=static", "-Dbuildtype=plain",
         *options, build, source], env=env)
    run(["ninja", "-C", build], env=env)
    (directory / "features.c").write_text(FEATURES)
    run(["cc", "-std=c11", *WARNINGS, directory / "features.c", f"-I{source}/include", build / "lib" / "libpagehint.a", "-lpthread",
         "-o", directory / "features"])
    return answer(directory / "features"), sorted(path.name for path in build.rglob("libpagehint-xen*") if path.is_file())


def main():
    built, source = sys.argv[1:]
    bare = dict(os.environ, PKG_CONFIG_LIBDIR="/nowhere", PKG_CONFIG_PATH="")
    for name, options, env, wanted in [("xen disabled", ["-Dxen=disabled"], os.environ, 4),
                                       ("no headers of Xen", [], bare, 1 if os.uname().machine in ("x86_64", "aarch64") else 4)]:
        with tempfile.TemporaryDirectory(prefix="pagehint-xen-") as directory:
            got, libraries = build_with(source, pathlib.Path(directory), options, dict(env))
        if got != wanted or libraries:
            sys.exit(f"{name}: the program answered {got}, {wanted} was expected; built {libraries}")
        print(f"{name}: built, and says so")
    with installed(built) as (where, directory):
        if not list(where.libdir.glob("libpagehint-xen.so")):
            print("libxencall was not found: no small library, and none was installed")
            return 1 if list(where.where.rglob("xencall.h")) else 0
        (directory / "small.c").write_text(SMALL)
        include = next(where.where.rglob("pagehint/xencall.h")).parent.parent
        where.compile(["cc", "-std=c11", *WARNINGS, directory / "small.c", f"-I{include}", f"-L{where.libdir}", "-lpagehint-xen",
                       "-lpagehint", f"-Wl,-rpath-link,{where.libdir}", "-o", directory / "small"])
        where.run(directory / "small")
        needed = run(["readelf", "-d", where.libdir / "libpagehint.so"])
        if "xen" in needed:
            sys.exit(f"the core drags Xen in:\n{needed}")
        print("the small library: linked and run; the core needs nothing of it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
