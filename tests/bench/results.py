"""RESULTS.md and results.svg: what the last `run --write` measured, with the machine and the versions."""

import os
import pathlib
import platform
import re
import subprocess
import time

import plot
from calls import GATE, WANTED_GATE
from meter import TEXT_BYTES
from report import digits
from stage import ROOT

HERE = pathlib.Path(__file__).resolve().parent
FILE, PLOT = HERE / "RESULTS.md", HERE / "results.svg"


def said_by(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def machine():
    """Without its name: what matters for the figures."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", info, re.M)
    memory = int(re.search(r"^MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M)[1]) >> 20
    kernel = platform.release().split("-")[0]
    return f"{os.cpu_count()} cores of {model[1] if model else platform.machine()}, {memory} GiB, Linux {kernel}"


def versions():
    changed = "" if not said_by("git", "status", "--porcelain", "src", "Cargo.lock") else " with changes"
    return f"trunkline {said_by('git', 'rev-parse', '--short', 'HEAD')}{changed}, {' '.join(said_by('rustc', '--version').split()[:2])}"


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def head(*titles):
    return [row(*titles), row(*("---" for _ in titles))]


def calls_table(rows):
    yield from head("c", "direct calls/s", "pass", "trunkline", "speed ÷ pass", "lower bound", "gate (aim)", "with its log ÷ pass",
                    "CPU ÷ pass", "CPU per call", "p99 pass", "p99 trunkline", "RSS")
    for r in rows:
        c, per_s, p99 = r["concurrency"], r["per_s"], r["p99_ms"]
        yield row(c, f"{per_s['direct']:.0f}", f"{per_s['pass']:.0f}", f"{per_s['trunkline']:.0f}", f"{r['speed']:.3f}",
                  f"{r['bound']:.3f}", f"{GATE[c]:.2f} ({WANTED_GATE[c]:.2f})", f"{r['logging']:.3f}", f"{r['cpu']:.2f}",
                  f"{r['cpu_us']:.1f} µs", f"{p99['pass']:.2f} ms", f"{p99['trunkline']:.2f} ms", f"{r['rss_mib']:.1f} MiB")


def rivals_table(rows):
    yield from head("c", "through", "calls/s", "÷ pass", "CPU ÷ pass", "p99")
    for r in rows:
        if "per_s" not in r:
            yield row(r["concurrency"], r["name"], "failed", "", "", "")
            continue
        cpu = f"{r['cpu']:.2f}" if r["cpu"] else "–"
        yield row(r["concurrency"], r["name"], f"{r['per_s']:.0f}", f"{r['speed']:.4f}", cpu, f"{r['p99_ms']:.2f} ms")


def section(title, figures, notes):
    yield from ["", f"## {title}", ""]
    if figures:
        yield from head("", "measured", "goal")
        for f in figures:
            yield row(f.what, f"{digits(f.value)} {f.unit}".strip(), f"**{f.told}**" if f.missed else f.told)
    if figures and notes:
        yield ""
    yield from (f"- {note}" for note in notes)


def panels(report):
    """Of the rivals' race where there was one, else of the calls."""
    for concurrency in GATE:
        bars = [(r["name"], r.get("speed"), r.get("per_s")) for r in report.rivals if r["concurrency"] == concurrency]
        if not bars:
            r = next(r for r in report.calls if r["concurrency"] == concurrency)
            bars = [("direct", r["direct"], r["per_s"]["direct"]), ("pass", 1.0, r["per_s"]["pass"]),
                    ("trunkline", r["speed"], r["per_s"]["trunkline"])]
        yield f"{concurrency} at a time", sorted(bars, key=lambda bar: -(bar[1] or 0))


def write(report, quick):
    """Both files. A figure without a goal has none in the issue; MISSED is told where there is one."""
    lines = ["# What the benchmark measured", "",
             "Written by `tests/bench/run --write`; [README.md](README.md) says what the figures mean.", "",
             f"- {time.strftime('%Y-%m-%d', time.gmtime())}, {machine()}", f"- {versions()}",
             f"- an echo of {TEXT_BYTES} bytes, one upstream, {'a quick run: short rounds' if quick else '7 rounds of 3 s'}"]
    if report.busy is not None:
        lines.append(f"- other programs took {report.busy:.0%} of the processors meanwhile")
    lines += ["", "![calls a second through each, as a ratio to a proxy that only passes bytes on](results.svg)", "",
              "## Calls", "", *calls_table(report.calls)]
    if report.rivals:
        lines += ["", "## Rivals", "", *rivals_table(report.rivals)]
    for title, figures, notes in report.sections:
        lines += section(title if title != "Rivals" else "Rivals: versions", figures, notes)
    missed = [f"{title}: {figure.what}: {digits(figure.value)}, not {figure.sign} {figure.goal:g}" for title, figure in report.missed]
    lines += ["", f"## Missed goals: {len(missed)}", "", *(f"- {text}" for text in missed)]
    FILE.write_text("\n".join(lines).rstrip() + "\n")
    PLOT.write_text(plot.svg(list(panels(report))))
