"""The Xen examples on a machine without Xen: they say so and end with 77; wrong words end with 2.

usage: xen_examples_test.py POPULATE BALLOON
On a real Xen they are run by peers/xen.sh.
"""
import pathlib
import subprocess
import sys


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=20)
    return done.returncode, done.stdout


def main():
    populate, balloon = sys.argv[1:]
    wrong = []
    for words in ([populate], [populate, "0", "64"], [populate, "5", "63"], [populate, "5", "x"], [balloon, "x"], [balloon, "0"]):
        code, _ = run(*words)
        if code != 2:
            wrong.append(f"{words[0].rsplit('/', 1)[-1]} {words[1:]}: ended with {code}, 2 was expected")
    type_file = pathlib.Path("/sys/hypervisor/type")
    if type_file.exists() and type_file.read_text().strip() == "xen":
        print("on Xen: the rest would change domains")
    else:
        for words in ([populate, "5", "64"], [balloon], [balloon, "512"]):
            code, out = run(*words)
            if code != 77 or not out.startswith("not applicable: this is not Xen"):
                wrong.append(f"{words}: ended with {code} and said {out!r}")
    print("\n".join(wrong) if wrong else "8 or 9 runs ended as they should")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
