"""The arbiter's example among guests that obey, on sockets that talk as pagehint-balloon does.

usage: arbiter_test.py ARBITER
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

MIB = 1 << 20
PAGE = 4096


class Balloon:
    """A guest of `size` MiB that works with `need` MiB, and what its pagehint-balloon would say. It obeys at once."""

    def __init__(self, directory, name, size, actual, need):
        self.path = os.path.join(directory, name)
        self.size, self.actual, self.need = size, actual, need
        self.targets, self.broken = [], None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def held(self):
        return self.size - self.actual

    def _serve(self):
        while True:
            talk, _ = self.listener.accept()
            with talk, talk.makefile("rw") as lines:
                for line in lines:
                    lines.write(self._answer(json.loads(line)) + "\n")
                    lines.flush()

    def _answer(self, asked):
        if self.broken is not None:
            return self.broken
        if asked["command"] == "target":
            self.actual = asked["bytes"] // MIB
            self.targets.append(self.held)
            return json.dumps({"ok": True, "bytes": asked["bytes"]})
        said = {"ok": True, "progress": {"memory_pages": self.size * MIB // PAGE, "actual_pages": self.actual * MIB // PAGE}}
        if self.need is not None:
            said["guest"] = {"age_ns": 1000, "total": self.held * MIB, "available": max(self.held - self.need, 0) * MIB}
        return json.dumps(said)


def run(arbiter, capacity, rounds, *paths):
    done = subprocess.run([arbiter, str(capacity), "0", str(rounds), *paths], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def case(wrong, what, holds, shown=""):
    if not holds:
        wrong.append(f"{what}: {shown}")


def who_needs_gets(arbiter, directory, wrong):
    idle, busy = Balloon(directory, "idle", 2048, 0, 100), Balloon(directory, "busy", 2048, 1536, 1400)
    code, said = run(arbiter, 2560, 12, idle.path, busy.path)
    case(wrong, "both answer", code == 0, said)
    case(wrong, "who works with more than it has gets it", busy.held >= 1400, said)
    case(wrong, "who is idle keeps what it works with", idle.held >= 164, said)
    case(wrong, "no more than there is", idle.held + busy.held <= 2560, said)
    case(wrong, "a guest gives in steps", all(a - b <= 256 for a, b in zip([2048] + idle.targets, idle.targets)), idle.targets)
    moves = len(idle.targets) + len(busy.targets)
    run(arbiter, 2560, 5, idle.path, busy.path)
    case(wrong, "who has what it should is left alone", len(idle.targets) + len(busy.targets) == moves, "moved on")


def unknown_and_silent(arbiter, directory, wrong):
    mute, busy = Balloon(directory, "mute", 1024, 0, None), Balloon(directory, "want", 1024, 512, 900)
    code, said = run(arbiter, 2048, 9, mute.path, busy.path)
    case(wrong, "without statistics a guest is taken to need what it has", code == 0 and mute.held == 1024, said)
    case(wrong, "and who needs more gets it from what is left", busy.held >= 900, said)
    case(wrong, "and that is said", "an unknown amount" in said, said)
    for answer in ('{"ok": false, "error": "no"}', "no JSON", "{}", '{"ok": true}', '{"ok": true, "progress": 3}'):
        mute.broken = answer
        code, said = run(arbiter, 4096, 3, mute.path, busy.path)
        case(wrong, f"the answer {answer!r} is a missing guest", code == 1 and "does not answer" in said, said)
    code, said = run(arbiter, 4096, 3, os.path.join(directory, "nobody"), busy.path)
    case(wrong, "a socket that is not there is a missing guest", code == 1 and "does not answer" in said, said)
    case(wrong, "and the others are served", busy.held >= 900, said)


def usage(arbiter, directory, wrong):
    some = os.path.join(directory, "some")
    for words in ([], ["1"], ["1", "0", "1"], ["x", "0", "1", some], ["1", "-1", "1", some], ["1", "0", "1x", some],
                  ["1", "0", "1", *[some] * 65], ["18446744073709551615", "0", "1", some]):
        code = subprocess.run([arbiter, *words], capture_output=True, timeout=60).returncode
        case(wrong, f"usage {words[:4]}", code == 2, code)


def main():
    arbiter, wrong = sys.argv[1], []
    with tempfile.TemporaryDirectory() as directory:
        for part in (who_needs_gets, unknown_and_silent, usage):
            part(arbiter, directory, wrong)
    print("\n".join(wrong) if wrong else "every guest had what it should have")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
