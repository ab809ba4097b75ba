"""Installs the build into a directory of its own and compiles against that, as a stranger's project would.

Where BUILD is no build directory it is such a tree already: unpacked packages."""
import contextlib
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


class Installed:
    def __init__(self, where):
        self.where = pathlib.Path(where).resolve()
        pc = list(self.where.rglob("pagehint.pc"))
        if len(pc) != 1:
            raise SystemExit(f"{len(pc)} files pagehint.pc were installed, 1 was expected")
        self.libdir = pc[0].parent.parent
        # a destdir is a sysroot: pkg-config then finds what the .pc file says below it; what others installed is where it always is
        system = subprocess.run(["pkg-config", "--variable", "pc_path", "pkg-config"], check=True, capture_output=True, text=True)
        path = f"{pc[0].parent}:{system.stdout.strip()}"
        self.env = dict(os.environ, PKG_CONFIG_LIBDIR=path, PKG_CONFIG_SYSROOT_DIR=str(self.where),
                        PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1", PKG_CONFIG_ALLOW_SYSTEM_LIBS="1", # /usr, but below the sysroot
                        LD_LIBRARY_PATH=str(self.libdir))

    def flags(self, *args, package="pagehint"):
        out = subprocess.run(["pkg-config", *args, package], env=self.env, check=True, capture_output=True, text=True)
        return shlex.split(out.stdout)

    def headers(self):
        return sorted(path.name for path in self.where.rglob("pagehint/*.h"))

    def compile(self, command, **more):
        run(command, env=self.env, **more)

    def run(self, program):
        run([program], env=self.env, timeout=60)


def run(command, **more):
    """Runs it; what it said is shown when it failed."""
    shown = command if isinstance(command, str) else shlex.join(map(str, command))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        print(f"failed ({done.returncode}): {shown}\n{done.stdout}")
        sys.exit(1)
    return done.stdout


@contextlib.contextmanager
def installed(build):
    with tempfile.TemporaryDirectory(prefix="pagehint-consumer-") as directory:
        root = pathlib.Path(build)
        if (root / "meson-info").is_dir():
            root = pathlib.Path(directory) / "root"
            subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root], check=True)
        yield Installed(root), pathlib.Path(directory)
