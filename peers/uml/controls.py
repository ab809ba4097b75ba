"""Devices that are wrong on purpose: each must be caught by what the other cases rely on, the guest's files."""
from cases import MIB, expect, wait_until
from guest import VARIANTS, Failure, Pair, Panic


def caught(pair, work):
    """Whether a wrong device harms: a corrupt file, or a guest that falls over."""
    try:
        work(pair)
        return pair.files.check() > 0
    except Panic:
        return True


def harm(variant, work, *options, rounds=6):
    for _ in range(rounds):
        try:
            with Pair(*options, program=VARIANTS / f"balloon-{variant}") as pair:
                if caught(pair, work):
                    return {}
        except Panic:
            return {}
        except Failure:  # the device did not come so far as to harm; neither did the guest notice
            continue
    raise Failure(f"the wrong device {variant} was not noticed in {rounds} rounds")


def fragments(pair):
    """Holes between files that stay: what goes one page too far belongs to somebody."""
    for order in (3, 5):
        pair.guest.set_order(order)
        pair.files.make_mixed(f"keep{order}_", f"drop{order}_", 150, 128)
        before = pair.balloon.stats()["device"]["report_bytes"]
        pair.files.drop(f"drop{order}_")
        wait_until("it reports", lambda: pair.balloon.stats()["device"]["report_bytes"] > before + 2 * MIB)
        if pair.files.check():
            return


def case_wrong_shift():
    """Discards one page behind what was reported."""
    return harm("shift", fragments)


def reuse(pair):
    """What was reported is used again, and reports go on meanwhile."""
    pair.guest.set_order(5)
    for i in range(4):
        pair.files.make("gone", 30, 4096, "/dev/zero")
        pair.files.drop("gone")
        before = pair.balloon.stats()["device"]["report_bytes"]
        wait_until("it reports", lambda: pair.balloon.stats()["device"]["report_bytes"] > before + 8 * MIB, 30)
        pair.files.make(f"keep{i}_", 20, 4096)
        pair.files.note(f"keep{i}_")


def case_wrong_scribble():
    """Writes into reported pages after it has acknowledged them."""
    return harm("scribble", reuse)


def hint_twice(pair):
    balloon = pair.balloon
    for i in range(2):
        balloon.must("hint", action="start")
        wait_until("it hints", lambda: balloon.stats()["hint"]["bytes"] >= 100 * MIB)
        balloon.must("hint", action="done")
        if i == 0:
            wait_until("the guest has its pages again",
                       lambda: int(pair.guest.run("grep MemFree /proc/meminfo").split()[1]) > 300 * 1024)
            pair.files.make("keep", 60, 4096)
            pair.files.note("keep")
    expect("hints came twice", balloon.stats()["hint"]["bytes"] > 0)


def case_wrong_hints():
    """Discards hinted pages, late."""
    return harm("hints", hint_twice, "--features", "hint,stats")
