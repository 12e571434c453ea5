"""Running a conformance suite and reading what came of it."""

import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))
import world  # noqa: E402

SECONDS = 600  # for a whole run of a suite
MODERN = "2026-07-28"  # has no handshake
# Scenarios of clients by the revision that is spoken. Those of authentication are left out.
CLIENT_SCENARIOS = {
    "2025-11-25": ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
    MODERN: (
        "tools_call",
        "request-metadata",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "sep-2322-client-request-state",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ),
}
AT_ONCE = 3  # runs that mostly wait
# The worst first: ids repeat within a scenario.
SEVERITY = ("FAILURE", "WARNING", "SUCCESS", "SKIPPED", "INFO")


@dataclass(frozen=True)
class Suite:
    version: str
    package: str
    revisions: tuple[str, ...]  # that it has scenarios for
    sets: tuple[str, ...] = ()  # that it has a requirement set for

    def knows(self, revision: str) -> bool:
        return revision in self.revisions

    def command(self, *arguments: str) -> list[str]:
        return [str(world.NODE), str(HERE / "node_modules" / self.package / "dist" / "index.js"), *arguments]

    def choice(self, revision: str) -> list[str]:
        """The arguments that choose a revision's scenarios."""
        if revision in self.sets:
            return ["--requirements", revision]
        return ["--suite", "all", "--spec-version", revision]

    def scored(self, revision: str) -> set[str] | None:
        """The scenarios that count; None: all."""
        if revision not in self.sets:
            return None
        listed = subprocess.run(
            self.command("list", "--server", "--requirements", revision), capture_output=True, text=True, check=True
        ).stdout
        of_servers = listed.partition("Server scenarios")[2].partition("\n\n")[0]
        return set(re.findall(r"^  - (\S+)$", of_servers, re.MULTILINE))


NEW = Suite(
    "0.2.0-alpha.12",
    "conformance",
    ("2025-03-26", "2025-06-18", "2025-11-25", MODERN),
    ("2025-11-25", MODERN),
)
OLD = Suite("0.1.16", "conformance-0.1", ("2025-06-18", "2025-11-25"))


@dataclass
class Result:
    """What one run came to: per scenario each check's id and its worst status, and what was said about it."""

    scored: set[str] | None
    checks: dict[str, dict[str, str]] = field(default_factory=dict)
    words: dict[tuple[str, str], str] = field(default_factory=dict)

    def read(self, scenario: str, folder: Path | None) -> None:
        """Takes in a scenario's checks. One without any has failed."""
        checks = self.checks.setdefault(scenario, {})
        for check in json.loads((folder / "checks.json").read_text()) if folder else []:
            known = checks.get(check["id"])
            if known is None or SEVERITY.index(check["status"]) < SEVERITY.index(known):
                checks[check["id"]] = check["status"]
                self.words[scenario, check["id"]] = check.get("errorMessage") or check["description"]

    def passed(self, scenario: str) -> bool:
        statuses = self.checks.get(scenario, {}).values()
        return any(statuses) and "FAILURE" not in statuses

    def counting(self) -> list[str]:
        return [scenario for scenario in self.checks if self.scored is None or scenario in self.scored]

    def count(self) -> str:
        counting = self.counting()
        return f"{sum(map(self.passed, counting))}/{len(self.scored or counting)}"


def folders(output: Path) -> dict[str, Path]:
    """Scenario to folder; the suite adds the time to the name."""
    found = {}
    for checks in sorted(output.glob("**/checks.json")):
        name = str(checks.parent.relative_to(output))
        found[re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", name).removeprefix("server-")] = checks.parent
    return found


def server(suite: Suite, url: str, revision: str, output: Path) -> Result:
    """Runs the suite against a server."""
    command = suite.command("server", "--url", url, "-o", str(output), *suite.choice(revision))
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=output.parent)
    ran = re.findall(r"^=== Running scenario: (\S+) ===$", done.stdout, re.MULTILINE)
    if not ran:
        raise RuntimeError(f"the suite ran nothing (exit code {done.returncode})\n{(done.stdout + done.stderr)[-3000:]}")
    result, found = Result(suite.scored(revision)), folders(output)
    for scenario in ran:
        result.read(scenario, found.get(scenario))
    return result


def client(command: list[str], revision: str, output: Path) -> Result:
    """Runs the client scenarios with this command, and a folder for its logs, as the client."""
    result = Result(None)
    output.mkdir()

    def run(scenario: str) -> str:
        place = output / f"{scenario}-logs"
        started = shlex.join([*command, str(place)])
        arguments = ["--command", started, "--scenario", scenario, "--spec-version", revision]
        done = subprocess.run(
            NEW.command("client", *arguments, "-o", str(output / scenario)),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=HERE,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        )
        logs = "".join(f"{log.name}: {log.read_text(errors='replace')[-3000:]}\n" for log in sorted(place.glob("*.log")))
        return (done.stdout + done.stderr)[-3000:] + logs

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for scenario, words in zip(CLIENT_SCENARIOS[revision], pool.map(run, CLIENT_SCENARIOS[revision])):
            result.read(scenario, next(iter(folders(output / scenario).values()), None))
            if not result.passed(scenario):
                print(f"{scenario}:\n{words}")
    return result


def all_passed(what: str, result: Result) -> bool:
    """Prints what has failed."""
    fine = True
    for scenario, checks in result.checks.items():
        if not result.passed(scenario):
            fine = fine and scenario not in result.counting()
            print(f"{what}: {scenario} fails{'' if checks else ' without a check'}")
            for check, status in checks.items():
                if status == "FAILURE":
                    print(f"    {check}: {result.words[scenario, check]}")
    missing = (result.scored or set()) - set(result.checks)
    for scenario in sorted(missing):
        print(f"{what}: {scenario} did not run")
    return fine and not missing


# Scenarios without a score in which a server closes its stream in the middle of a call to be polled. trunkline does the
# polling itself and answers its client in one piece, so these checks are not reached; one that fails would still count.
NOT_NEEDED = {"server-sse-polling"}


def compare(suite: Suite, direct: Result, through: Result) -> bool:
    """Prints every check that differs; true if none that passed direct fails through."""
    fine = True
    for scenario, expected in direct.checks.items():
        got, lines = through.checks.get(scenario, {}), []
        worse = direct.passed(scenario) and not through.passed(scenario)
        for check in sorted(expected | got):
            before, after = expected.get(check, "absent"), got.get(check, "absent")
            if before == after or {before, after} <= {"INFO", "SKIPPED", "absent"}:
                continue
            bad = ("FAILURE", "WARNING") if scenario in NOT_NEEDED else ("FAILURE", "WARNING", "absent")
            worse |= before == "SUCCESS" and after in bad
            words = through.words.get((scenario, check), "it was not reached")
            lines.append(f"    {check}: direct {before}, through {after}: {words}")
        if worse or lines:
            print("\n".join([f"{suite.version} {scenario}: {'worse than direct' if worse else 'differs'}", *lines]))
        fine &= not worse
    return fine
