"""layers.py finds each kind of wrong include, and is silent about a right tree."""
import unittest

import layers
from tree import tree

RIGHT = {
    "lib/pagehint.c": '#include <pagehint/api.h>\n#include "report/cycle.h"\n#include "base/bits.h"\n',
    "lib/base/bits.h": "",
    "lib/memory/map.h": "",
    "lib/discard/gate.h": '#include "base/bits.h"\n',
    "lib/host/madvise.c": '#include "memory/map.h"\n#include "discard/gate.h"\n',
    "lib/report/cycle.h": '#include "host/x.h"\n',
    "lib/host/x.h": "",
    "include/pagehint/api.h": "#include <stdint.h>\n",
}


class Layers(unittest.TestCase):
    def found(self, **changed):
        files = dict(RIGHT)
        files.update({name.replace("__", "/").replace("_dot_", "."): text for name, text in changed.items()})
        with tree(files) as root:
            return layers.violations(root)

    def assert_one(self, found, part):
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def test_right_tree(self):
        self.assertEqual(self.found(), [])

    def test_up(self):
        self.assert_one(self.found(lib__base__x_dot_c='#include "memory/map.h"\n'), "points up")

    def test_sideways(self):
        self.assert_one(self.found(lib__memory__x_dot_c='\n#include "discard/gate.h"\n'), "lib/memory/x.c:2: ")
        self.assert_one(self.found(lib__memory__x_dot_c='#include "discard/gate.h"\n'), "sideways")

    def test_pathless(self):
        self.assert_one(self.found(lib__memory__x_dot_c='#include "map.h"\n'), "room/header.h")

    def test_pathless_and_ambiguous(self):
        found = self.found(lib__discard__map_dot_h="", lib__memory__x_dot_c='#include "map.h"\n')
        self.assert_one(found, "2 rooms have one: discard, memory")

    def test_same_name_in_two_rooms_is_fine(self):
        self.assertEqual(self.found(lib__discard__map_dot_h=""), [])

    def test_parent(self):
        self.assert_one(self.found(lib__memory__x_dot_c='#include "../memory/map.h"\n'), "room/header.h")

    def test_unknown_header_and_room(self):
        self.assert_one(self.found(lib__memory__x_dot_c='#include "base/none.h"\n'), "no such header")
        self.assert_one(self.found(lib__memory__x_dot_c='#include "attic/none.h"\n'), "no such room")
        self.assert_one(self.found(lib__attic__x_dot_c=""), "no known room")

    def test_internal_in_angles(self):
        self.assert_one(self.found(lib__memory__x_dot_c="#include <base/bits.h>\n"), "internal header")

    def test_public_header(self):
        self.assert_one(self.found(include__pagehint__x_dot_h='#include "api.h"\n'), "public header")
        self.assert_one(self.found(include__pagehint__x_dot_h="#include <stdio.h>\n"), "only")
        self.assert_one(self.found(include__pagehint__x_dot_h="#include <pagehint/none.h>\n"), "no such public")

    def test_length(self):
        self.assertEqual(self.found(tests__x_dot_c="\n" * 400), [])
        self.assert_one(self.found(tests__x_dot_c="\n" * 401), "401 lines")

    def test_nothing_to_check(self):
        with tree({"lib/readme": ""}) as root:
            self.assert_one(layers.violations(root), "nothing was checked")


if __name__ == "__main__":
    unittest.main()
