"""The library as a meson subproject: found through its dependency name, with tests, man pages and benches off.

usage: subproject.py SOURCE_ROOT
"""
import json
import pathlib
import sys
import tempfile

from installed import run

MESON = """project('stranger', 'c', default_options: ['c_std=c11', 'warning_level=3', 'werror=true'])
pagehint = dependency('pagehint', fallback: 'libpagehint')
test('runs', executable('stranger', 'stranger.c', dependencies: pagehint))
"""
PROGRAM = """#include <pagehint/pagehint.h>
int main(void)
{
	return pagehint_version()[0] != '0' + PAGEHINT_VERSION_MAJOR;
}
"""


def main():
    with tempfile.TemporaryDirectory(prefix="pagehint-subproject-") as directory:
        top = pathlib.Path(directory)
        (top / "meson.build").write_text(MESON)
        (top / "stranger.c").write_text(PROGRAM)
        (top / "subprojects").mkdir()
        (top / "subprojects" / "libpagehint").symlink_to(pathlib.Path(sys.argv[1]).resolve())
        build = top / "build"
        run(["meson", "setup", build, top, "--wrap-mode=forcefallback"])
        run(["ninja", "-j2", "-C", build])
        run(["meson", "test", "-C", build])
        targets = json.loads(run(["meson", "introspect", "--targets", build]))
        ours = {t["name"] for t in targets if t.get("subproject") == "libpagehint"}
        if "pagehint" not in ours:
            sys.exit(f"the subproject builds no pagehint: {sorted(ours)}")
        if ours - {"pagehint", "pagehint-core"}:
            sys.exit(f"as a subproject it should build the library alone, not {sorted(ours)}")
        print(f"subproject: built {sorted(ours)}, ran")
    return 0


if __name__ == "__main__":
    sys.exit(main())
