"""The table of plain calls: direct, `pass`, trunkline; its gate; and the rivals beside it."""

import os
import statistics

import rivals
from meter import TEXT_BYTES, TOOL, Others, Variant, cpu_ratio, cpu_us, measure, median, ratio, ratios, saturated
from stage import Failure

# Concurrency -> the least calls/s that trunkline must reach, as a ratio to `pass` (--check), and what is aimed at.
GATE = {1: 0.80, 16: 0.80, 128: 0.80}
WANTED_GATE = {1: 0.80, 16: 0.90, 128: 0.95}
AIM = {1: 1.0, 16: 1.1, 128: 1.1}
ROUNDS, SECONDS = 7, 3.0
QUICK_ROUNDS, QUICK_SECONDS = 7, 0.8
RIVAL_ROUNDS, RIVAL_SECONDS = 3, 2.0
# How many times as fast as the best rival that reads what it passes on.
AHEAD = {1: 2.5, 16: 4, 128: 5}
BYTES_ONLY = "nginx"
# Other programs that take more than this share of the processors blur the ratios.
BUSY = 0.10
# `logging` is trunkline with its defaults: a line for every call. It is shown, and not held to the gate.
VARIANTS = ("direct", "pass", "trunkline", "logging")


def lower_bound(of_rounds, quick):
    """The second smallest of at least 7: the true median is below it with a chance of 6 % at most.

    Rounds of less than a second scatter too much for that, so in a quick run the median stands in.
    """
    return statistics.median(of_rounds) if quick else sorted(of_rounds)[1]


def variants(stage):
    upstream, upstream_at = stage.start_bound("upstream")
    floor, floor_at = stage.start_bound("pass", "--to", upstream_at)
    trunkline, trunkline_at = stage.start_trunkline("trunkline", "warn", upstream_at)
    logging, logging_at = stage.start_trunkline("logging", "info", upstream_at)
    return [Variant("direct", upstream_at, watch={"upstream": upstream}),
            Variant("pass", floor_at, watch={"pass": floor, "upstream": upstream}),
            Variant("trunkline", trunkline_at, TOOL, {"trunkline": trunkline, "upstream": upstream}),
            Variant("logging", logging_at, TOOL, {"logging": logging, "upstream": upstream})]


def measure_all(stage, them, concurrencies, number, seconds):
    """Every concurrency in every round, so that a drift of the machine favours none."""
    done = {concurrency: [] for concurrency in concurrencies}
    for n in range(number):
        for concurrency, results in done.items():
            order = them[::-1] if n % 2 else them
            results.append({v.name: measure(stage, v, seconds, conc=concurrency) for v in order})
        print(f"bench: round {n + 1} of {number} done", flush=True)
    return done


def summary(concurrency, done, quick):
    """The figures of one concurrency; ratios are taken within each round, then their median."""
    speed = ratios(done, "trunkline", "pass")
    return {
        "concurrency": concurrency,
        "per_s": {v: median(done, v, "per_s") for v in VARIANTS},
        "p99_ms": {v: median(done, v, "p99_us") / 1000 for v in VARIANTS},
        "speed": statistics.median(speed),
        "bound": lower_bound(speed, quick),
        "direct": ratio(done, "direct", "pass"),
        "logging": ratio(done, "logging", "pass"),
        "cpu": cpu_ratio(done, "trunkline", "pass"),
        "cpu_us": statistics.median(cpu_us(r, "trunkline") for r in done),
        "p99": ratio(done, "trunkline", "pass", "p99_us"),
        "rss_mib": max(r["trunkline"]["used"]["trunkline"]["rss_kib"] for r in done) / 1024,
    }


def print_table(rows):
    print()
    print(f"{'':>5} | {'calls/s':^26} | {'trunkline ÷ pass':^30} | {'p99 ms':^26} | trunkline")
    print(f"{'conc':>5} | {'direct':>7} {'pass':>7} {'trunkline':>10} | {'speed':>7} {'bound':>7} {'CPU':>6} {'logging':>7} "
          f"| {'direct':>7} {'pass':>7} {'trunkline':>10} | {'RSS MiB':>9}")
    for row in rows:
        speeds = "{direct:7.0f} {pass:7.0f} {trunkline:10.0f}".format(**row["per_s"])
        p99 = "{direct:7.2f} {pass:7.2f} {trunkline:10.2f}".format(**row["p99_ms"])
        print(f"{row['concurrency']:5} | {speeds} | {row['speed']:7.3f} {row['bound']:7.3f} {row['cpu']:6.2f} {row['logging']:7.3f} "
              f"| {p99} | {row['rss_mib']:9.1f}")
    print()


def calls(bench, check):
    """Measures, prints, and gives what is below the gate. Of a quick `check` that is what stays below it at full length."""
    number, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if bench.quick else (ROUNDS, SECONDS)
    print(f"bench: {number} rounds of {seconds} s, echo of {TEXT_BYTES} bytes, {os.cpu_count()} cores", flush=True)
    with bench.stage() as stage:
        them = variants(stage)
        others = Others({id(p): p for v in them for p in v.watch.values()}.values())
        rows = table(bench, stage, them, GATE, number, seconds)
        bench.report.busy = others.share()
        if bench.report.busy > BUSY:
            print(f"bench: warning: other programs took {bench.report.busy:.0%} of the processors: repeat this when they rest")
        below = [row for row in rows if row["bound"] < GATE[row["concurrency"]]]
        if below and bench.quick and check:
            # Short rounds scatter: what they put below the gate is measured at full length, and that counts.
            print("bench: below the gate, so again at full length: " + told(below), flush=True)
            again = table(bench, stage, them, [row["concurrency"] for row in below], ROUNDS, SECONDS)
            below = [row for row in again if row["bound"] < GATE[row["concurrency"]]]
            rows = sorted([row for row in rows if row["concurrency"] not in {r["concurrency"] for r in again}] + again,
                          key=lambda row: row["concurrency"])
    bench.report.calls = rows
    goals(bench.report, rows)
    return below


def table(bench, stage, them, concurrencies, number, seconds):
    done = measure_all(stage, them, concurrencies, number, seconds)
    rows = [summary(concurrency, results, bench.quick) for concurrency, results in done.items()]
    print_table(rows)
    for name in sorted(set().union(*(saturated(results, ("pass", "trunkline")) for results in done.values()))):
        print(f"bench: warning: {name} had no time left; the ratios are nearer to 1 than the truth")
    return rows


def goals(report, rows):
    report.section("Calls: the aims")
    for row in rows:
        concurrency = row["concurrency"]
        report.figure(f"c={concurrency}: speed ÷ pass", row["speed"], "×", at_least=AIM[concurrency])
        report.figure(f"c={concurrency}: its lower bound (aim of the gate)", row["bound"], "×", at_least=WANTED_GATE[concurrency])
        report.figure(f"c={concurrency}: CPU per call ÷ pass", row["cpu"], "×", at_most=1.0)
        report.figure(f"c={concurrency}: p99 ÷ pass", row["p99"], "×", at_most=1.0)


def told(below):
    return ", ".join(f"{row['bound']:.3f} < {GATE[row['concurrency']]:.2f} at concurrency {row['concurrency']}"
                     for row in below)


def beside(bench):
    """The rivals, in turns with `pass` and trunkline."""
    bench.report.section("Rivals")
    with bench.stage() as stage:
        them = variants(stage)[:3]
        for name in rivals.RIVALS:
            try:
                rival = rivals.start(stage, name, them[0].address)
            except rivals.Skipped as why:
                bench.report.note(f"{name}: skipped: {why}")
            except Failure as why:
                bench.report.note(f"{name}: FAILED: {why}")
            else:
                watch = {f"{name}.{n}": process for n, process in enumerate(rival.processes)}
                them.append(Variant(name, rival.address, rival.tool, watch, rival.options))
                bench.report.note(f"{name} {rival.version}")
        for concurrency in GATE:
            bench.report.rivals += race(bench, stage, them, concurrency)
    print_rivals(bench.report.rivals)
    for concurrency, goal in AHEAD.items():
        speeds = {r["name"]: r["per_s"] for r in bench.report.rivals if r["concurrency"] == concurrency and "per_s" in r}
        if best := max((name for name in speeds if name not in (*VARIANTS, BYTES_ONLY)), key=speeds.get, default=None):
            bench.report.figure(f"c={concurrency}: trunkline ÷ {best}", speeds["trunkline"] / speeds[best], "×", at_least=goal)


def race(bench, stage, them, concurrency):
    """A row for each; one that answers wrongly is out of the race from there on."""
    done = {v.name: [] for v in them}
    for n in range(RIVAL_ROUNDS):
        for variant in them[::-1] if n % 2 else them:
            try:
                done[variant.name].append(measure(stage, variant, RIVAL_SECONDS, conc=concurrency))
            except Failure as why:
                if variant.name in VARIANTS:
                    raise
                bench.report.note(f"{variant.name} FAILED at concurrency {concurrency}: {why}")
                them = [v for v in them if v is not variant]
    rows = []
    for name, runs in done.items():
        if len(runs) < RIVAL_ROUNDS:
            rows.append({"name": name, "concurrency": concurrency})
            continue
        paired = [{"pass": floor, name: run} for floor, run in zip(done["pass"], runs)]
        rows.append({"name": name, "concurrency": concurrency, "per_s": median(paired, name, "per_s"),
                     "speed": ratio(paired, name, "pass"), "p99_ms": median(paired, name, "p99_us") / 1000,
                     "cpu": None if name == "direct" else cpu_ratio(paired, name, "pass")})
    return rows


def print_rivals(rows):
    print(f"\n{'conc':>5}  {'through':<10} {'calls/s':>9} {'÷ pass':>8} {'CPU ÷ pass':>11} {'p99 ms':>9}")
    for row in rows:
        if "per_s" not in row:
            print(f"{row['concurrency']:5}  {row['name']:<10} failed")
            continue
        cpu = f"{row['cpu']:11.2f}" if row["cpu"] else f"{'–':>11}"
        print(f"{row['concurrency']:5}  {row['name']:<10} {row['per_s']:9.0f} {row['speed']:8.4f} {cpu} {row['p99_ms']:9.2f}")
