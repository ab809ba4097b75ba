"""Building a mutant and running the tests on it, in a copy of the tree.

A worker has a copy of what git knows, and a build of it with static libraries and without debug information: object code that
is the same is then the same bytes, and linking is quick. Tests are built when it is their turn.
"""
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

SUITES = ("unit", "model", "fault", "hostile", "conformance", "concurrency")
# of random tests: most mutants die in the first rounds, and a survivor costs all of them. Not of `concurrency`, whose tests
# want to have seen threads meet
ROUNDS_PCT = "25"
SHORT = {"conformance": 3.0, "concurrency": 3.0}  # seconds: tests of these suites that take longer are left out
# words of a test's name that say whose room it is of; the name of a room says so of itself
WORDS = {
    "alloc": "zone node flush scrub shared reclaimer opts",
    "base": "bits opts syscalls pager-setup discard",
    "bitmap": "bitmap_harvest bitmap_origin bitmap_runs",
    "discard": "backend gate merge null discard",
    "host": "madvise null backend discard",
    "join": "virtio_backend virtio-backend driver_zone pager_filter pager",
    "memory": "map detect",
    "report": "reporter bitmap_origin zone_origin pace",
    "virtio": "device driver ring pieces partial guest_memory virtio_transport",
}
# a pointer for a number is no mutant, it is a mistake that a compiler finds
BUILD = ["-Ddefault_library=static", "-Dbuildtype=plain", "-Doptimization=2", "-Ddebug=false", "-Dwarning_level=0",
         "-Dc_args=-Werror=int-conversion -Werror=incompatible-pointer-types -Werror=implicit-function-declaration"]
OPTIONAL = ["man", "bench"]  # options of the tree that are switched off where there are such


@dataclasses.dataclass
class Test:
    name: str
    target: str
    command: list
    env: dict
    suite: str
    alone: bool
    seconds: float = 0.0


class Failed(Exception):
    """What the tool stands on does not hold."""


def of_room(test, room):
    words = test.name.partition("-")[2]
    return any(words.startswith(word) for word in [room, *WORDS.get(room, "").split()])


def copy_tree(root, to):
    """What git knows of the tree, or all of it where there is no git; files that are the same keep their times."""
    listed = shutil.which("git") and subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True)
    names = listed.stdout.decode().split("\0")[:-1] if listed and listed.returncode == 0 else \
        [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.relative_to(root).parts[0] != to.parent.name]
    for gone in {str(p.relative_to(to)) for p in to.rglob("*") if p.is_file()} - set(names) if to.exists() else ():
        (to / gone).unlink()
    for name in names:
        source, copy = root / name, to / name
        if not source.is_file() or copy.is_file() and copy.read_bytes() == source.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
        shutil.copymode(source, copy)


class Worker:
    huge_pages = threading.Lock()  # tests that meson runs alone change what belongs to the whole machine

    def __init__(self, root, base, index):
        self.root, self.tree, self.build = root, base / f"tree{index}", base / f"build{index}"
        self.changed = None

    def call(self, *args):
        done = subprocess.run(args, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def must(self, *args):
        code, out = self.call(*args)
        if code != 0:
            raise Failed(f"{' '.join(map(str, args))}\n{out}")
        return out

    def prepare(self):
        copy_tree(self.root, self.tree)
        options = self.tree / "meson_options.txt"
        has = options.read_text(encoding="utf-8") if options.exists() else ""
        off = [f"-D{name}=disabled" for name in OPTIONAL if f"option('{name}'" in has]
        again = ["--reconfigure"] if (self.build / "build.ninja").exists() else []
        self.must("meson", "setup", *again, *BUILD, *off, self.build, self.tree)
        targets = json.loads(self.must("meson", "introspect", "--targets", self.build))
        lib = str(self.tree / "lib")
        self.libraries = [os.path.relpath(t["filename"][0], self.build) for t in targets
                          if t["type"] == "static library" and t["defined_in"].startswith(lib)]
        self.tests = [test for test in map(self.test_of, json.loads(self.must("meson", "introspect", "--tests", self.build))) if test]
        self.must("ninja", "-C", self.build, "-j2", *self.libraries, *{test.target for test in self.tests})
        self.objects = self.hashes()

    def test_of(self, entry):
        """A test of the suites that is a program of this build; scripts test other things."""
        program = pathlib.Path(entry["cmd"][0])
        suite = next((s for s in (s.split(":")[-1] for s in entry["suite"]) if s in SUITES), None)
        if suite is None or not program.is_relative_to(self.build):
            return None
        return Test(entry["name"], str(program.relative_to(self.build)), entry["cmd"], entry["env"], suite, not entry["is_parallel"])

    def hashes(self):
        return {path: hashlib.sha256(path.read_bytes()).digest() for path in (self.build / "lib").rglob("*.o")}

    def change(self, mutant):
        """Puts the mutant into the tree, and the one before it out. Return: whether it compiles to something else."""
        self.restore()
        source = self.tree / mutant.file
        text = source.read_text(encoding="utf-8")
        source.write_text(mutant.apply(text), encoding="utf-8")
        self.changed = source, text
        code, _ = self.call("ninja", "-C", self.build, "-j1", *self.libraries)
        return "does not compile" if code != 0 else "same code" if self.hashes() == self.objects else None

    def restore(self):
        if self.changed:
            source, text = self.changed
            source.write_text(text, encoding="utf-8")
        self.changed = None

    def run(self, test, timeout):
        """Return: None, or how it failed. What others on this machine can make fail has to fail twice."""
        if test.alone:
            with self.huge_pages:
                return self.run_once(test, timeout) and self.run_once(test, timeout)
        how = self.run_once(test, timeout)
        return self.run_once(test, timeout) if how and test.suite == "concurrency" else how

    def run_once(self, test, timeout):
        env = {**os.environ, **test.env, "MALLOC_PERTURB_": "77"}
        if test.suite != "concurrency":
            env["PAGEHINT_TEST_ROUNDS_PCT"] = ROUNDS_PCT
        limits = ["prlimit", "--core=0", f"--cpu={int(4 * timeout) + 1}"]
        child = subprocess.Popen([*limits, *test.command], cwd=self.build, env=env, start_new_session=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        return None if code in (0, 77) else "timeout" if code is None else f"exit {code}"

    def baseline(self, memory):
        """Every test on the tree as it is: it must pass, and its time is the measure for its timeout. What was found for
        this very tree stands in the file `memory`. Return: {name: seconds}, and the names of those that take too long."""
        state = hashlib.sha256()
        for path in sorted(p for p in self.tree.rglob("*") if p.is_file()):
            state.update(f"{path.relative_to(self.tree)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
        known = json.loads(memory.read_text(encoding="utf-8")) if memory.exists() else {}
        if known.get("tree") != state.hexdigest():
            known = {"tree": state.hexdigest(), "seconds": {test.name: self.measure(test) for test in self.tests}}
            memory.write_text(json.dumps(known), encoding="utf-8")
        limits = {test.name: SHORT.get(test.suite, float("inf")) for test in self.tests}
        long = [name for name, seconds in known["seconds"].items() if seconds > limits[name]]
        return {name: seconds for name, seconds in known["seconds"].items() if name not in long}, long

    def measure(self, test):
        start = time.monotonic()
        how = self.run(test, 600)
        if how:
            raise Failed(f"{test.name} fails on the tree as it is: {how}")
        return time.monotonic() - start

    def choose(self, seconds):
        """Only these tests, which take that long."""
        self.tests = [test for test in self.tests if test.name in seconds]
        for test in self.tests:
            test.seconds = seconds[test.name]

    def ordered(self, room):
        """The room's tests first; among these and among the others the quick ones."""
        return sorted(self.tests, key=lambda test: (not of_room(test, room), test.seconds))

    def judge(self, mutant):
        """(name, how) of the first test that notices, or None."""
        parts = pathlib.PurePath(mutant.file).parts
        order = self.ordered(parts[1] if len(parts) > 2 else "lib")
        near = [test for test in order if of_room(test, parts[1])]
        for group in (near, [test for test in order if test not in near]):
            if not group:
                continue
            code, out = self.call("ninja", "-C", self.build, "-j1", *{test.target for test in group})
            if code != 0:  # it compiled in the library, and not in a header's other users
                return "build", re.sub(r"\s+", " ", out)[-80:]
            for test in group:
                how = self.run(test, max(15.0, 10 * test.seconds))
                if how:
                    return test.name, how
        return None
