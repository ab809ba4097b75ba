"""What the real Linux driver does with pagehint-balloon, case by case. A case returns figures and raises Failure."""
import os
import pathlib
import signal
import socket
import time
import urllib.request

from guest import PAGE, VARIANTS, Failure, Pair, wait_until

MIB = 1 << 20
GIB = 1 << 30


def expect(what, truth):
    if not truth:
        raise Failure(what)


def settled(pair, seconds=4.5):
    """Waits until no report came for two rounds of the driver, which looks every 2 s."""
    last, since = None, time.monotonic()
    while time.monotonic() - since < seconds:
        now = pair.balloon.stats()["device"]["report_ranges"]
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.2)


def sound(pair):
    """What must hold whenever a case is over."""
    expect("files are as they were", pair.files.check() == 0)
    stats = pair.balloon.stats()
    dropped = {name: n for name, n in stats["dropped"].items() if n}
    expect(f"nothing of a good driver is dropped: {dropped}", not dropped)
    expect(f"the device is whole: {stats['device']}", stats["device"]["broken"] == 0 and stats["device"]["failed"] == 0)
    expect(f"no message is refused: {stats['vhost']}", stats["vhost"]["refused"] == 0 and stats["vhost"]["unknown"] == 0)
    return stats


def give_back(pair, order, pieces, keep_kib, drop_kib, name="a"):
    """Frees memory between files that stay, and measures how it comes back. Returns the figures."""
    guest, files = pair.guest, pair.files
    guest.set_order(order)
    files.make_mixed(f"keep_{name}_", f"drop_{name}_", pieces, drop_kib if keep_kib is None else keep_kib)
    if keep_kib is not None:
        files.make(f"more_{name}_", pieces, drop_kib, "/dev/zero")
    settled(pair)
    free, held = guest.free_blocks(order), guest.host_bytes()
    start = time.monotonic()
    files.drop(f"drop_{name}_")
    if keep_kib is not None:
        files.drop(f"more_{name}_")
    freed = guest.free_blocks(order) - free
    expect(f"the guest freed much in blocks of order {order}: {freed} bytes", freed >= 16 * MIB)
    wait_until(f"95% of {freed} bytes are back", lambda: held - guest.host_bytes() >= 0.95 * freed, 60)
    seconds = time.monotonic() - start
    settled(pair)
    return {"freed": freed, "returned": held - guest.host_bytes(), "seconds": seconds}


def case_report():
    """Order 10, as the driver has it by default."""
    with Pair() as pair:
        figures = give_back(pair, 10, 12, 256, 16384)
        sound(pair)
        return {"report": figures, "corrupt": pair.files.corrupt}


def case_report_orders():
    """Smaller orders, written after the module is in: holes of 64 KiB to 1 MiB between files that stay."""
    with Pair() as pair:
        figures = [give_back(pair, 6, 40, None, 1024, "b"), give_back(pair, 3, 300, None, 128, "c")]
        sound(pair)
        return {"reports": figures, "corrupt": pair.files.corrupt}


def maximal_runs(buffers):
    """The fewest calls that could give these back: adjacent ones are one."""
    runs, end = 0, None
    for address, length in sorted(buffers):
        runs += address != end
        end = address + length
    return runs


def cpu_ns(pid):
    """CPU time of a process, as the kernel's scheduler counts it."""
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])


def case_report_calls():
    """Every report is written down as it comes off the ring; the calls are counted by the backend."""
    read, write = os.pipe()
    with open(read, encoding="ascii") as record:
        with Pair(program=VARIANTS / "balloon-record", env={"PEER_RECORD_FD": str(write)}, pass_fds=[write]) as pair:
            os.close(write)
            guest, files = pair.guest, pair.files
            files.make("big", 10, 16384, "/dev/zero")
            settled(pair)
            before, held = pair.balloon.stats()["device"]["report_bytes"], guest.host_bytes()
            worker = pair.balloon.worker()
            cpu = cpu_ns(worker)
            files.drop("big")  # nobody asks the worker anything until the memory is back
            wait_until("it reports", lambda: guest.host_bytes() <= held - 150 * MIB)
            cpu = cpu_ns(worker) - cpu
            gib = (pair.balloon.stats()["device"]["report_bytes"] - before) / GIB
            guest.set_order(4)
            files.make_mixed("keep", "hole", 60, 256)
            files.drop("hole")
            settled(pair)
            punched = sound(pair)["backend"]["punch"]
        requests, buffers = [], None
        for line in record:
            if line == "request\n":
                buffers = []
                requests.append(buffers)
            else:
                buffers.append(tuple(map(int, line.split())))
    plain = sum(map(len, requests))
    contiguous = [r for r in requests if maximal_runs(r) * 8 <= len(r)]
    expect("there were requests of both kinds", contiguous and len(contiguous) < len(requests))
    return {"punched": punched, "maximal": sum(map(maximal_runs, requests)), "plain": plain, "requests": len(requests),
            "contiguous": (sum(map(maximal_runs, contiguous)), sum(map(len, contiguous))), "cpu_ms_per_gib": cpu / 1e6 / gib}


def case_balloon():
    """To a target and back; statistics; metrics."""
    with Pair() as pair:
        guest, balloon = pair.guest, pair.balloon
        pair.files.make("keep", 4, 4096)
        pair.files.note("keep")
        pair.files.make("gone", 40, 4096, "/dev/zero")
        pair.files.drop("gone")
        settled(pair)
        held, start = guest.host_bytes(), time.monotonic()
        pages = 60000
        balloon.must("target", bytes=pages * PAGE)
        wait_until("the balloon is full", lambda: balloon.stats()["progress"]["actual_pages"] == pages, step=0.01)
        seconds = time.monotonic() - start
        expect("inflated pages are counted", balloon.stats()["device"]["inflate_pages"] == pages)
        expect("the guest has that much less",
               int(guest.run("grep balloon_inflate /proc/vmstat").split()[1]) == pages)
        expect(f"the host holds no more than before: {held} {guest.host_bytes()}", guest.host_bytes() <= held + 2 * MIB)
        balloon.must("target", bytes=1000 * PAGE)
        wait_until("the balloon is small", lambda: balloon.stats()["progress"]["actual_pages"] == 1000, step=0.01)
        balloon.must("stats", refresh=True)
        told = wait_until("statistics", lambda: balloon.stats().get("guest"))
        total = int(guest.run("grep MemTotal /proc/meminfo").split()[1]) * 1024
        expect(f"statistics are the guest's: {told}, {total}", abs(told["total"] - total) < 8 * MIB)
        balloon.must("target", bytes=0)
        wait_until("the balloon is empty", lambda: balloon.stats()["progress"]["actual_pages"] == 0, step=0.01)
        sound(pair)
        return {"pages_per_s": pages / seconds, "corrupt": pair.files.corrupt}


def case_inflate_gives_back():
    """Without reporting, memory that was used and is free again goes back with the balloon alone."""
    with Pair("--features", "stats,deflate-on-oom") as pair:
        guest, balloon = pair.guest, pair.balloon
        pair.files.make("gone", 60, 4096, "/dev/zero")
        pair.files.make("keep", 4, 4096)
        pair.files.note("keep")
        pair.files.drop("gone")
        held, pages = guest.host_bytes(), 110000
        balloon.must("target", bytes=pages * PAGE)
        wait_until("the balloon is full", lambda: balloon.stats()["progress"]["actual_pages"] == pages)
        gone = held - guest.host_bytes()
        expect(f"most of what was freed went back: {gone}", gone >= 200 * MIB)
        sound(pair)
        return {"corrupt": pair.files.corrupt}


def case_hints():
    """Two runs of hints; the pages come back to the guest, and nothing of them is discarded."""
    with Pair("--features", "hint,stats") as pair:
        guest, balloon = pair.guest, pair.balloon
        pair.files.make("keep", 8, 4096)
        pair.files.note("keep")
        ids = set()
        for _ in range(2):
            held = guest.host_bytes()
            ids.add(balloon.must("hint", action="start")["id"])
            wait_until("it hints", lambda: balloon.stats()["hint"]["bytes"] >= 100 * MIB)
            balloon.ask("hint", action="stop")  # the guest may have ended the run by itself
            balloon.must("hint", action="done")
            wait_until("the guest has its pages again",
                       lambda: int(guest.run("grep MemFree /proc/meminfo").split()[1]) > 300 * 1024)
            expect("hints discard nothing", guest.host_bytes() >= held)
        expect(f"every run has an id of its own: {ids}", len(ids) == 2)
        expect("the backend was not asked", sound(pair)["device"]["asked"] == 0)
        return {"corrupt": pair.files.corrupt}


def case_poison():
    """Poison offered and turned down: features are said twice, and queues are never said to be enabled."""
    with Pair("--features", "must-tell-host,stats,deflate-on-oom,hint,poison,reporting") as pair:
        figures = give_back(pair, 10, 6, 256, 16384)
        pair.guest.run("rmmod virtio_balloon && insmod /mod/virtio_balloon.ko")
        pair.balloon.must("target", bytes=5000 * PAGE)
        wait_until("the balloon follows", lambda: pair.balloon.stats()["progress"]["actual_pages"] == 5000)
        expect("the device began anew", sound(pair)["device"]["resets"] == 1)
        return {"report": figures, "corrupt": pair.files.corrupt}


def case_oom():
    """A guest that runs out of memory takes pages back from the balloon, and lives."""
    with Pair("--features", "deflate-on-oom,stats", memory="256M") as pair:
        guest, balloon = pair.guest, pair.balloon
        pages = 48000
        balloon.must("target", bytes=pages * PAGE)
        wait_until("the balloon is full", lambda: balloon.stats()["progress"]["actual_pages"] == pages)
        pair.files.make("keep", 12, 8192)
        pair.files.note("keep")
        stats = balloon.stats()
        expect(f"pages came back for want of memory: {stats['device']}", stats["device"]["oom_pages"] > 1000)
        balloon.must("target", bytes=0)
        wait_until("the balloon is empty", lambda: balloon.stats()["progress"]["actual_pages"] == 0)
        sound(pair)
        return {"corrupt": pair.files.corrupt}


def case_module():
    """The module goes and comes again, twice; the device begins anew each time."""
    with Pair() as pair:
        guest, balloon = pair.guest, pair.balloon
        for i in range(2):
            balloon.must("target", bytes=5000 * PAGE)
            wait_until("the balloon follows", lambda: balloon.stats()["progress"]["actual_pages"] == 5000)
            guest.run("rmmod virtio_balloon")
            wait_until("no queue runs", lambda: balloon.stats()["vhost"]["queues_running"] == 0)
            guest.run("insmod /mod/virtio_balloon.ko")
            wait_until("all queues run", lambda: balloon.stats()["vhost"]["queues_running"] == 5)
            wait_until("the target holds", lambda: balloon.stats()["progress"]["actual_pages"] == 5000)
            balloon.must("target", bytes=0)
            wait_until("the balloon is empty", lambda: balloon.stats()["progress"]["actual_pages"] == 0)
        figures = give_back(pair, 10, 8, 256, 16384)
        sound(pair)
        return {"report": figures, "corrupt": pair.files.corrupt}


def case_keeper():
    """The worker is killed again and again, while idle, while the guest reports and while it inflates."""
    with Pair() as pair:
        guest, balloon, files = pair.guest, pair.balloon, pair.files
        guest.set_order(5)
        kills = 0

        def kill():
            nonlocal kills
            worker = balloon.watch_worker()
            os.kill(worker.pid, signal.SIGKILL)
            worker.wait()
            kills += 1
            expect("there is another worker", balloon.stats()["program"]["restarts"] == kills)
            wait_until("it knows everything", lambda: balloon.stats()["vhost"]["queues_running"] == 5)

        kill()
        files.make_mixed("keep", "drop", 100, 512)
        files.drop("drop")
        before = balloon.stats()["device"]["report_ranges"]
        wait_until("a report", lambda: balloon.stats()["device"]["report_ranges"] > before, step=0.001)
        kill()
        balloon.must("target", bytes=40000 * PAGE)
        wait_until("some pages", lambda: balloon.stats()["device"]["inflate_pages"] > 256, step=0.001)
        kill()
        wait_until("the balloon is full", lambda: balloon.stats()["progress"]["actual_pages"] == 40000)
        balloon.must("target", bytes=0)
        kill()
        wait_until("the balloon is empty", lambda: balloon.stats()["progress"]["actual_pages"] == 0)
        figures = give_back(pair, 10, 6, 256, 16384)
        stats = sound(pair)
        expect("every kill was a restart", stats["program"]["restarts"] == kills)
        return {"report": figures, "corrupt": files.corrupt}


def case_keeper_mid_report():
    """Workers die in the middle of a request, some of it discarded and nothing acknowledged. The guest waits for none of them."""
    read, write = os.pipe2(os.O_NONBLOCK)
    with Pair(program=VARIANTS / "balloon-die", env={"PEER_DIE_FD": str(read)}, pass_fds=[read]) as pair:
        os.close(read)
        guest, balloon, files = pair.guest, pair.balloon, pair.files
        guest.set_order(5)
        for deaths in range(1, 4):
            files.make_mixed(f"keep{deaths}_", f"drop{deaths}_", 60, 256)
            settled(pair)
            expect("nobody dies unasked", balloon.stats()["program"]["restarts"] == deaths - 1)
            worker = balloon.watch_worker()
            os.write(write, b"x")
            files.drop(f"drop{deaths}_")
            worker.wait()
            expect("there is another worker", balloon.stats()["program"]["restarts"] == deaths)
        figures = give_back(pair, 10, 6, 256, 16384)
        os.close(write)
        sound(pair)
        return {"report": figures, "corrupt": files.corrupt}


def case_paused():
    """Paused, nothing is discarded whatever the guest reports; resumed, it goes on. A worker's death does not resume it."""
    with Pair() as pair:
        guest, balloon = pair.guest, pair.balloon
        balloon.must("pause")
        pair.files.make("gone", 20, 4096, "/dev/zero")
        pair.files.drop("gone")
        worker = balloon.watch_worker()
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        settled(pair)
        stats = balloon.stats()
        expect(f"it is paused: {stats}", stats["program"]["paused"] == 1 and stats["backend"]["punch"] == 0)
        expect("explain says why", any("embedder" in line for line in balloon.must("explain")["lines"]))
        balloon.must("resume")
        pair.files.make("gone", 20, 4096, "/dev/zero")
        held = guest.host_bytes()
        pair.files.drop("gone")
        wait_until("it discards again", lambda: guest.host_bytes() < held - 20 * MIB)
        return {"corrupt": pair.files.check()}


def case_knobs():
    """Small reports are kept until the order says otherwise; a rate makes reports wait, and loses none."""
    with Pair("--order", "9", "--rate", "40M") as pair:
        guest, balloon, files = pair.guest, pair.balloon, pair.files
        guest.set_order(3)
        files.make_mixed("keep", "drop", 100, 64)
        files.drop("drop")
        settled(pair)
        stats = balloon.stats()
        small = next(n for name, n in stats["dropped"].items() if "least_size" in name)
        expect(f"small reports are kept: {stats}", small > 10 and stats["device"]["kept"] == 0)
        files.make("big", 10, 16384, "/dev/zero")
        held = guest.host_bytes()
        files.drop("big")
        wait_until("big ones go, at their pace", lambda: held - guest.host_bytes() > 130 * MIB, 60)
        expect("they waited", balloon.stats()["device"]["rate_waits"] > 0)
        balloon.must("tune", order=0, rate=0)
        before = next(n for name, n in balloon.stats()["dropped"].items() if "least_size" in name)
        give_back(pair, 3, 100, None, 256, "d")
        after = next(n for name, n in balloon.stats()["dropped"].items() if "least_size" in name)
        expect("nothing is too small any more", before == after)
        expect("files are as they were", files.check() == 0)
        return {"corrupt": files.corrupt}


def case_no_root():
    """Started without any privilege; everything works."""
    wrapper = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    with Pair(wrapper=wrapper) as pair:
        figures = give_back(pair, 10, 6, 256, 16384)
        pair.balloon.must("target", bytes=5000 * PAGE)
        wait_until("the balloon follows", lambda: pair.balloon.stats()["progress"]["actual_pages"] == 5000)
        sound(pair)
        pair.guest.end()
        expect("a clean end", pair.balloon.end() == 0)
        expect("no socket is left", not pair.balloon.socket.exists() and not pair.balloon.control.exists())
        return {"report": figures, "corrupt": pair.files.corrupt}


def case_life():
    """Another user, no capability, a filter; metrics; a clean end that leaves no socket."""
    with socket.socket() as probe:  # a port that is free now
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Pair("--metrics", str(port)) as pair:
        status = pathlib.Path(f"/proc/{pair.balloon.worker()}/status").read_text(encoding="ascii")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        expect(f"no capability: {fields['CapEff']}", int(fields["CapEff"], 16) == 0)
        expect("a filter of system calls", fields["Seccomp"].strip() == "2")
        expect("not root", fields["Uid"].split()[1] != "0")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            metrics = answer.read().decode()
        expect(f"metrics: {metrics[:200]}", "pagehint_vhost_queues_running 5" in metrics.splitlines())
        pair.guest.end()
        wait_until("the balloon waits for the next guest", lambda: pair.balloon.stats()["vhost"]["connected"] == 1
                   and pair.balloon.stats()["vhost"]["messages"] == 0)
        expect("a clean end", pair.balloon.end() == 0)
        return {}
