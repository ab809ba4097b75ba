"""same_bytes.py tells what differs between two trees, in whatever way they can differ, and is content with equal ones."""
import pathlib
import subprocess
import sys
import unittest

import same_bytes
from tree import tree

TOOL = pathlib.Path(same_bytes.__file__)


def compare(a, b, link=None):
    with tree(a) as left, tree(b) as right:
        if link:
            (left / "link").symlink_to(link[0])
            (right / "link").symlink_to(link[1])
        return same_bytes.compare(left, right)


class SameBytes(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(compare({"lib/a": "x", "b": ""}, {"lib/a": "x", "b": ""}, ("b", "b")), ([], 3))

    def test_one_byte_in_the_middle(self):
        wrong, both = compare({"a": "same, then x here", "b": "1"}, {"a": "same, then y here", "b": "1"})
        self.assertEqual((len(wrong), both), (1, 2))
        self.assertIn("a: differ from byte 11 on", wrong[0])

    def test_a_longer_file(self):
        self.assertEqual(len(compare({"a": "x"}, {"a": "xx"})[0]), 1)

    def test_a_file_too_few(self):
        self.assertEqual(len(compare({"a": "x", "b": "x"}, {"a": "x"})[0]), 1)
        self.assertEqual(len(compare({"a": "x"}, {"a": "x", "b": "x"})[0]), 1)

    def test_links(self):
        self.assertEqual(len(compare({"a": "x", "b": "x"}, {"a": "x", "b": "x"}, ("a", "b"))[0]), 1)

    def test_exit_codes(self):
        for a, b, wanted in [({"a": "x"}, {"a": "x"}, 0), ({"a": "x"}, {"a": "y"}, 1), ({}, {}, 1)]:
            with tree(a) as left, tree(b) as right:
                done = subprocess.run([sys.executable, TOOL, left, right], capture_output=True, text=True)
            self.assertEqual(done.returncode, wanted, done.stdout)


if __name__ == "__main__":
    unittest.main()
