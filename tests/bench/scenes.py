"""The tables beside that of plain calls: eras, events, open loop, big results, stdio, lists."""

import statistics

from asking import Asker
from meter import BLOB, TOOL, Variant, cpu_ratio, measure, median, ratio, rounds, trio
from proc import Process

CONCURRENCY = 16
OPEN_RATE, OPEN_WORKERS = 4000, 64
# trunkline's default limit of a message is 16 MiB, envelope included.
SIZES = {"64 KiB": 64 << 10, "1 MiB": 1 << 20, "16 MiB": (16 << 20) - 1024}
FORMS = {"id first": [], "id last": ["--id-last"], "SSE": ["--sse"]}
BIG_WORKERS = 4


def eras(bench):
    """Legacy sessions, 2026-07-28, and an upstream that answers by events."""
    bench.report.section(f"Eras and events, c={CONCURRENCY}")
    scenes = [("legacy sessions", ["--sessions"], {}, 1.1, 1.0), ("2026-07-28 on both sides", ["--modern"], {"speak": "modern"}, None, 1.1),
              ("upstream answers by SSE", ["--sse"], {}, None, 1.1)]
    for name, arguments, options, speed, cpu in scenes:
        with bench.stage() as stage:
            done = rounds(stage, trio(stage, *arguments), bench.rounds, bench.seconds, conc=CONCURRENCY, **options)
        bench.report.figure(f"{name}: speed ÷ pass", ratio(done, "trunkline", "pass"), "×", at_least=speed)
        bench.report.figure(f"{name}: CPU per call ÷ pass", cpu_ratio(done, "trunkline", "pass"), "×", at_most=cpu)


def open_loop(bench):
    """Calls come when they come, answered or not."""
    bench.report.section(f"Open loop, {OPEN_RATE:,} calls/s over {OPEN_WORKERS} connections")
    with bench.stage() as stage:
        done = rounds(stage, trio(stage), bench.rounds, 2 * bench.seconds, conc=OPEN_WORKERS, rate=OPEN_RATE, open=True)
    for name in ("pass", "trunkline"):
        bench.report.figure(f"{name}: p50", median(done, name, "p50_us") / 1000, "ms")
        bench.report.figure(f"{name}: p99", median(done, name, "p99_us") / 1000, "ms")
    bench.report.figure("p99 ÷ pass's", ratio(done, "trunkline", "pass", "p99_us"), "×", at_most=1.2)
    bench.report.figure("answered of what was sent", median(done, "trunkline", "per_s") / OPEN_RATE, "×", at_least=0.97)


def big(bench):
    """Results that do not fit into a packet: passed on while they come, or held?"""
    sizes = {"1 MiB": SIZES["1 MiB"]} if bench.quick else SIZES
    bench.report.section(f"Big results, c={BIG_WORKERS}")
    peaks = {}
    for form, arguments in FORMS.items():
        for size, length in sizes.items():
            with bench.stage() as stage:
                variants = trio(stage, *arguments, ours=BLOB, theirs="blob")
                done = rounds(stage, variants, bench.rounds, bench.seconds, "blob", conc=BIG_WORKERS, bytes=length)
                peaks[form, size] = Process(variants[1].watch["trunkline"]).peak_mib()
            name = f"{size}, {form}"
            bench.report.figure(f"{name}: trunkline", median(done, "trunkline", "per_s") * length / 1e6, "MB/s")
            bench.report.figure(f"{name}: speed ÷ pass", ratio(done, "trunkline", "pass"), "×", at_least=0.9)
            bench.report.figure(f"{name}: CPU ÷ pass", cpu_ratio(done, "trunkline", "pass"), "×")
            bench.report.figure(f"{name}: peak RSS", peaks[form, size], "MiB")
    if not bench.quick:
        for form in FORMS:
            grown = peaks[form, "16 MiB"] - peaks[form, "64 KiB"]
            bench.report.figure(f"{form}: peak RSS of 16 MiB beyond that of 64 KiB", grown, "MiB", at_most=8)


def stdio(bench):
    """A server that is a child process, against a floor that only moves bytes between HTTP and the pipe."""
    bench.report.section("Upstream over stdio")
    with bench.stage() as stage:
        child = [str(stage.programs / "upstream"), "--stdio"]
        floor, floor_at = stage.start_bound("floor", *child)
        config = {"mcpServers": {"up": {"command": child[0], "args": child[1:]}}}
        ours, listen, _ = stage.start_configured("trunkline", "warn", config)
        variants = [Variant("floor", floor_at, watch={"floor": floor}), Variant("trunkline", listen, TOOL, {"trunkline": ours})]
        for concurrency in (1, CONCURRENCY, 128):
            done = rounds(stage, variants, bench.rounds, bench.seconds, conc=concurrency)
            bench.report.figure(f"c={concurrency}: speed ÷ floor", ratio(done, "trunkline", "floor"), "×", at_least=0.9)
            bench.report.figure(f"c={concurrency}: CPU per call ÷ floor", cpu_ratio(done, "trunkline", "floor"), "×")


def lists(bench):
    """All tools on one page, beside a result of as many bytes that an upstream sends by itself."""
    bench.report.section("Lists, c=1")
    for servers, tools in ((10, 50), (1, 500), (100, 50)):
        with bench.stage() as stage:
            upstream, at = stage.start_bound("upstream", "--tools", tools)
            config = {"mcpServers": {f"up{n}": {"url": f"http://{at}/mcp"} for n in range(servers)}, "pageSize": 10_000}
            ours, listen, _ = stage.start_configured("trunkline", "warn", config)
            with Asker(listen) as asker:
                asker.open()
                length = len(asker.ask("tools/list")[1])
                count = len(asker.tools())
            if count != servers * tools:
                bench.report.note(f"{servers} × {tools}: only {count} tools")
            list_of_ours = Variant("trunkline", listen, None, {"trunkline": ours})
            blob = Variant("direct", at, "blob")
            done = []
            for _ in range(bench.rounds):
                done.append({"trunkline": measure(stage, list_of_ours, bench.seconds, "list"),
                             "direct": measure(stage, blob, bench.seconds, "blob", bytes=length)})
        per_s = median(done, "trunkline", "per_s")
        goal = 5000 if (servers, tools) == (10, 50) else None
        bench.report.figure(f"{servers} servers × {tools} tools", per_s, "lists/s", at_least=goal)
        bench.report.figure(f"{servers} servers × {tools} tools: {length / 1024:.0f} KiB each", per_s * length / 1e6, "MB/s")
        bench.report.figure(f"{servers} servers × {tools} tools ÷ as many bytes sent directly",
                            statistics.median(r["trunkline"]["per_s"] / r["direct"]["per_s"] for r in done), "×", at_least=0.9)
