"""manpages.py and man_examples.py read pages as scdoc does, and name what is missing."""
import pathlib
import unittest

import man_examples
import manpages
from tree import tree

PAGE = """pagehint_gate(3)

# NAME

pagehint_gate - x

# SYNOPSIS

int *pagehint_gate_new*(struct pagehint_gate \\*\\**ret*);

int *pagehint_gate_free*(struct pagehint_gate \\**gate*);

# DESCRIPTION

See *pagehint_map_pin*() and *pagehint_map*(3).

# EXAMPLE

```
# define ONE 1
int main(void) { return '\\\\' - '\\\\'; }
```

# SEE ALSO

*pagehint_map*(3)
"""


class Pages(unittest.TestCase):
    def page(self, text):
        with tree({"pagehint_gate.3.scd": text}) as root:
            return manpages.Page(root / "pagehint_gate.3.scd")

    def test_names(self):
        page = self.page(PAGE)
        self.assertEqual((page.name, page.section), ("pagehint_gate", "3"))
        self.assertEqual(page.owned(), {"pagehint_gate_new", "pagehint_gate_free"})
        self.assertEqual(page.documented(), {"pagehint_gate_new", "pagehint_gate_free", "pagehint_map_pin"})

    def test_sections_ignore_literal_hashes(self):
        self.assertEqual(list(self.page(PAGE).sections), ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLE", "SEE ALSO"])

    def test_example_reads_backslashes_as_scdoc(self):
        self.assertEqual(self.page(PAGE).example(), "# define ONE 1\nint main(void) { return '\\' - '\\'; }\n")

    def test_wrong_examples(self):
        for old, new, why in [
            ("# EXAMPLE", "# EXAMPLES", "no EXAMPLE"),
            ("main", "start", "no main"),
            ("\\\\' -", "\\' -", "backslash"),
            ("\n```\n\n# SEE", "\n```\n\n```\nint x;\n```\n\n# SEE", "2 literal blocks"),
            ("\n```\n\n# SEE", "\n\n# SEE", "not closed"),
        ]:
            self.assertIn(old, PAGE)
            with self.assertRaisesRegex(ValueError, why):
                self.page(PAGE.replace(old, new)).example()

    def test_examples_are_written(self):
        with tree({"m/pagehint_gate.3.scd": PAGE, "m/pagehint.7.scd": "pagehint(7)\n"}) as root:
            self.assertEqual(man_examples.write_examples(root / "m", root / "out"), 0)
            self.assertEqual([p.name for p in (root / "out").iterdir()], ["pagehint_gate.c"])

    def test_no_page_is_a_failure(self):
        with tree({"m/pagehint.7.scd": "pagehint(7)\n"}) as root:
            self.assertEqual(man_examples.write_examples(root / "m", root / "out"), 1)

    def test_a_page_without_example_is_a_failure(self):
        with tree({"m/a.3.scd": PAGE, "m/b.3.scd": "b(3)\n\n# NAME\n"}) as root:
            self.assertEqual(man_examples.write_examples(root / "m", root / "out"), 1)


if __name__ == "__main__":
    unittest.main()
