"""The tables of what grows, opens and rests: servers, sessions, streams; start, memory, size."""

import statistics
import time

import instructions
from asking import Asker
from meter import TOOL, Variant, cpu_us, measure, median, rounds
from proc import Process
from stage import OTHER, Failure, free_addresses

CONCURRENCY = 16
SERVERS, SESSIONS, STREAMS = 100, 10_000, 5000
STARTS = 5


def many(at, count):
    """A configuration of `count` servers, all at one address."""
    names = ["up", *(f"up{n}" for n in range(1, count))]
    return {"mcpServers": {name: {"url": f"http://{at}/mcp"} for name in names}}


def growth(bench):
    """What a call costs where there is more of everything."""
    bench.report.section(f"Growth, c={CONCURRENCY}")
    with bench.stage() as stage:
        upstream, at = stage.start_bound("upstream")
        one, one_at, _ = stage.start_configured("one", "warn", many(at, 1))
        full, full_at, _ = stage.start_configured("many", "warn", many(at, SERVERS))
        variants = [Variant("one", one_at, TOOL, {"one": one}), Variant("many", full_at, TOOL, {"many": full})]
        grown(bench, stage, variants, f"{SERVERS} servers ÷ 1", 1.05)
    with bench.stage() as stage:
        upstream, at = stage.start_bound("upstream")
        none, none_at = stage.start_trunkline("none", "warn", at)
        full, full_at = stage.start_trunkline("full", "warn", at)
        variants = [Variant("none", none_at, TOOL, {"none": none}), Variant("full", full_at, TOOL, {"full": full})]
        for variant in variants:
            measure(stage, variant, bench.seconds, conc=CONCURRENCY)  # warm
        before = Process(full).rss_mib()
        with stage.crowd("sessions", full_at, SESSIONS):
            held = Process(full).rss_mib() - before
            grown(bench, stage, variants, f"{SESSIONS:,} open sessions ÷ none", 1.10)
        bench.report.figure("memory of an open session", held * 1024 / SESSIONS, "KiB", at_most=4)
    if not bench.quick:
        by_instructions(bench)


def grown(bench, stage, variants, what, bar):
    small, large = (variant.name for variant in variants)
    done = rounds(stage, variants, bench.rounds, bench.seconds, conc=CONCURRENCY)
    value = statistics.median(cpu_us(r, large) / max(cpu_us(r, small), 1e-9) for r in done)
    bench.report.figure(f"CPU per call, {what}", value, "×", at_most=bar)


def by_instructions(bench):
    """The same without the machine's noise."""
    try:
        counted = instructions.count(bench, instructions.GROWTH)
    except Failure as why:
        bench.report.note(f"instructions: skipped: {why}")
        return
    base = counted["call"]
    bench.report.figure("instructions per call, 1,000 open sessions ÷ none", counted["sessions-1000"] / base, "×", at_most=1.10)
    # Without a bar until it is known what runs in bursts there, 127,000 instructions for each server at a time.
    bench.report.figure("instructions per call, 100 servers ÷ 1", counted["servers-100"] / base, "×")


def sessions(bench):
    """Opening sessions, and streams that rest."""
    bench.report.section("Sessions and streams")
    with bench.stage() as stage:
        _, at = stage.start_bound("upstream")
        ours, listen = stage.start_trunkline("trunkline", "warn", at)
        done = rounds(stage, [Variant("trunkline", listen, None)], bench.rounds, bench.seconds, "open")
        bench.report.figure("opening a session, p50", median(done, "trunkline", "p50_us") / 1000, "ms", at_most=0.25)
        bench.report.figure("opening a session, p99", median(done, "trunkline", "p99_us") / 1000, "ms")
        process = Process(ours)
        before = process.rss_mib()
        with stage.crowd("streams", listen, STREAMS):
            time.sleep(1)
            held, cpu, begun = process.rss_mib() - before, process.cpu_s(), time.monotonic()
            time.sleep(2 if bench.quick else 30)
            share = (process.cpu_s() - cpu) / (time.monotonic() - begun)
        bench.report.figure(f"memory of each of {STREAMS:,} idle streams", held * 1024 / STREAMS, "KiB", at_most=16)
        bench.report.figure(f"{STREAMS:,} idle streams, of a core", 100 * share, "%", at_most=2)


def ten_servers(stage):
    """What a start is measured with."""
    at = stage.start_bound("upstream", "--tools", 10)[1]
    return {"mcpServers": {f"up{n}": {"url": f"http://{at}/mcp"} for n in range(10)}}


def first_list(address, tools, deadline):
    """Asks until the port is open, then once for the list: times of both. A first list waits until it is complete."""
    while True:
        try:
            with Asker(address) as asker:
                asker.connection.connect()
                listening = time.monotonic()
                asker.open()
                found = len(asker.tools())
                if found != tools:
                    raise Failure(f"the first list has {found} of {tools} tools")
                return listening, time.monotonic()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise Failure("trunkline does not listen") from None
            time.sleep(0.0005)


def timed_start(stage):
    """Milliseconds from nothing to an open port, and to the first complete list."""
    config = ten_servers(stage)
    listen, admin = free_addresses(2)
    begun = time.monotonic()
    stage.spawn("trunkline", "warn", config | {"listen": listen, "admin": {"listen": admin}})
    return [1000 * (moment - begun) for moment in first_list(listen, 100, begun + 10)]


def start(bench):
    """From nothing to the first list, with ten servers; then what it takes at rest."""
    bench.report.section("Start and footprint, 10 servers of 10 tools")
    times = []
    for _ in range(STARTS):
        with bench.stage() as stage:
            times.append(timed_start(stage))
    listening, listed = zip(*times)
    bench.report.figure(f"to listening, median of {STARTS}", statistics.median(listening), "ms", at_most=20)
    bench.report.figure(f"to the first complete list, median of {STARTS}", statistics.median(listed), "ms", at_most=100)
    with bench.stage() as stage:
        ours, _, _ = stage.start_configured("trunkline", "warn", ten_servers(stage))
        time.sleep(2 if bench.quick else 15)  # what the start took goes back to the system
        bench.report.figure("RSS at rest", Process(ours).rss_mib(), "MiB", at_most=10)
    program = bench.programs / "trunkline"
    if not OTHER:
        bench.report.figure("binary, stripped", program.stat().st_size / 1e6, "MB", at_most=12)
