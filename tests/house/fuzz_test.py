"""tools/fuzz.sh counts what was run: executions as libFuzzer says them, targets as they ended. Nothing here is compiled."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RUNS = "stat::number_of_executed_units: {}\n"


class Fuzz(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for name in ("tools", "fuzz", "build-fuzz"):
            (self.root / name).mkdir()
        for name in ("fuzz.sh", "count.py"):
            shutil.copy(ROOT / "tools" / name, self.root / "tools")

    def bash(self, script):
        done = subprocess.run(["bash", "-c", ". tools/fuzz.sh\n" + script], cwd=self.root, capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()

    def target(self, name, says, code=0):
        """A target that is built already: says what it was told to, and with which options it was run."""
        program = self.root / "build-fuzz" / f"fuzz-{name}"
        program.write_text(f'#!/bin/bash\necho "$@" >>build-fuzz/args-{name}\nprintf %s "{says}"\nexit {code}\n')
        program.chmod(0o755)
        (self.root / "fuzz" / name / "corpus").mkdir(parents=True)
        (self.root / "fuzz" / f"{name}.sh").write_text(f'. tools/fuzz.sh\nfuzz_build() {{ :; }}\nfuzz {name} "$@"\n')

    def args(self, name):
        return (self.root / "build-fuzz" / f"args-{name}").read_text().splitlines()

    def test_the_count_is_libfuzzers(self):
        self.target("a", RUNS.format(12345))
        self.assertEqual(self.bash("bash fuzz/a.sh 7"), (0, ["RESULT fuzz.a.execs 12345", "2 passed, 0 failed, 0 skipped"]))
        self.assertIn("-runs=0", self.args("a")[0])
        self.assertIn("-max_total_time=7", self.args("a")[1])

    def test_a_finding_fails(self):
        self.target("a", RUNS.format(3), code=77)
        code, lines = self.bash("bash fuzz/a.sh 7")
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_nothing_run_fails(self):
        for name, says in (("a", ""), ("b", RUNS.format(0))):
            self.target(name, says)
            self.assertEqual(self.bash(f"bash fuzz/{name}.sh 7")[1][-1], "0 passed, 1 failed, 0 skipped")

    def test_a_build_that_fails(self):
        self.target("a", RUNS.format(3))
        (self.root / "fuzz" / "a.sh").write_text(". tools/fuzz.sh\nfuzz_build() { return 1; }\nfuzz a\n")
        self.assertEqual(self.bash("bash fuzz/a.sh")[1][-1], "0 passed, 1 failed, 0 skipped")

    def test_all_share_the_seconds(self):
        for name in "abc":
            self.target(name, RUNS.format(9))
        code, lines = self.bash("fuzz_all 31")
        self.assertEqual((code, lines[-1]), (0, "6 passed, 0 failed, 0 skipped"))
        self.assertEqual([line for line in lines if "RESULT" in line], [f"RESULT fuzz.{n}.execs 9" for n in "abc"])
        for name in "abc":
            self.assertIn("-max_total_time=10 ", self.args(name)[1])
        self.bash("PAGEHINT_FUZZ_SECONDS=60 fuzz_all")
        self.assertIn("-max_total_time=20 ", self.args("b")[3])
        self.bash("fuzz_all 1")  # none of them gets nothing, which would mean for ever
        self.assertIn("-max_total_time=1 ", self.args("b")[5])

    def test_all_goes_on_and_counts_what_failed(self):
        self.target("a", RUNS.format(9), code=1)
        self.target("b", RUNS.format(9))
        (self.root / "fuzz" / "c.sh").write_text("exit 0\n")  # said nothing of itself
        code, lines = self.bash("fuzz_all 6")
        self.assertEqual((code, lines[-1]), (1, "2 passed, 2 failed, 0 skipped"))
        self.assertIn("RESULT fuzz.b.execs 9", lines)

    def test_options_and_words(self):
        self.target("a", RUNS.format(1))
        (self.root / "fuzz" / "a" / "words").write_text('"x"\n')
        (self.root / "fuzz" / "a.sh").write_text(
            ". tools/fuzz.sh\nfuzz_build() { :; }\nlimits=(-malloc_limit_mb=5)\nfuzz a \"$@\"\n")
        self.bash("bash fuzz/a.sh 3 -seed=4")
        self.assertIn("-malloc_limit_mb=5", self.args("a")[0])
        self.assertIn("-dict=fuzz/a/words", self.args("a")[0])
        self.assertIn("-seed=4", self.args("a")[1])


class Targets(unittest.TestCase):
    def test_each_is_whole(self):
        """A script that can be run, sources, and inputs that are kept, and no folder without a script."""
        scripts = {path.stem for path in (ROOT / "fuzz").glob("*.sh")}
        self.assertEqual(scripts, {path.name for path in (ROOT / "fuzz").iterdir() if path.is_dir()})
        for name in scripts:
            text = (ROOT / "fuzz" / f"{name}.sh").read_text()
            self.assertIn(f'\nfuzz {name} "$@"\n', text)
            self.assertIn("\n# needs: clang", text)
            self.assertTrue(list((ROOT / "fuzz" / name).glob("*.c")), name)
            self.assertTrue(list((ROOT / "fuzz" / name / "corpus").iterdir()), name)


if __name__ == "__main__":
    unittest.main()
