"""count.py counts what ran: nothing is passed that did not pass, and nothing is forgotten."""
import json
import unittest

import count
from tree import tree


def entry(result, stdout="", name="t"):
    return {"name": name, "result": result, "stdout": stdout}


class Counting(unittest.TestCase):
    def report(self, *entries, strict=False):
        counted = count.Count()
        for one in entries:
            counted.add_test(one)
        lines, code = counted.report(strict)
        return lines, code

    def test_results(self):
        lines, code = self.report(entry("OK"), entry("EXPECTEDFAIL"))
        self.assertEqual((lines, code), (["2 passed, 0 failed, 0 skipped"], 0))
        for bad in ("FAIL", "TIMEOUT", "ERROR", "UNEXPECTEDPASS", "INTERRUPT", "something new"):
            lines, code = self.report(entry("OK"), entry(bad, name="x"))
            self.assertEqual((lines[-1], code), ("1 passed, 1 failed, 0 skipped", 1))
            self.assertIn(f"failed: x ({bad})", lines)

    def test_skip(self):
        lines, code = self.report(entry("OK"), entry("SKIP"))
        self.assertEqual((lines[-1], code), ("1 passed, 0 failed, 1 skipped", 0))
        self.assertEqual(self.report(entry("OK"), entry("SKIP"), strict=True)[1], 1)

    def test_not_applicable_is_listed_once_and_not_counted(self):
        why = "a\nnot applicable: no KVM\n"
        lines, code = self.report(entry("OK", why), entry("SKIP", why))
        self.assertEqual((lines, code), (["not applicable: no KVM", "1 passed, 0 failed, 0 skipped"], 0))

    def test_nothing_may_be_missing_in_ci(self):
        lines, code = self.report(entry("OK", "not applicable: no KVM\n"), strict=True)
        self.assertEqual((lines[0], lines[-1], code), ("not applicable: no KVM", "1 passed, 1 failed, 0 skipped", 1))

    def test_skipped_case_in_a_passing_test(self):
        case = "[  SKIPPED ] a_case\n[  SKIPPED ] 1 test(s)\n"
        self.assertEqual(self.report(entry("OK", case))[0][-1], "0 passed, 0 failed, 1 skipped")
        self.assertEqual(self.report(entry("OK", case + "not applicable: x\n"))[0][-1], "1 passed, 0 failed, 0 skipped")
        self.assertEqual(self.report(entry("OK", "[  SKIPPED ] 0 test(s)\n"))[0][-1], "1 passed, 0 failed, 0 skipped")

    def test_nothing_ran(self):
        lines, code = self.report()
        self.assertEqual((lines[-1], code), ("0 passed, 0 failed, 0 skipped", 1))

    def test_broken_and_missing_logs_fail(self):
        good = json.dumps(entry("OK"))
        for text, passed in [(good + "\n" + good[:9], 0), ('{"name": "x"}', 0)]:
            with tree({"log.json": text}) as root:
                counted = count.Count()
                counted.add_log(root / "log.json")
                counted.add_log(root / "none.json")
                lines, code = counted.report(False)
                self.assertEqual((lines[-1], code), (f"{passed} passed, 2 failed, 0 skipped", 1))

    def test_stages(self):
        with tree({"stages": "passed layers\nfailed abi\n"}) as root:
            counted = count.Count()
            counted.add_stages(root / "stages")
            lines, code = counted.report(False)
            self.assertEqual((lines, code), (["failed: stage abi", "1 passed, 1 failed, 0 skipped"], 1))


if __name__ == "__main__":
    unittest.main()
