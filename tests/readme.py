"""Runs what README.md shows, so that it stays true. TRUNKLINE_BIN is the program to use.

- A block marked `sh run` is run, in sh and in bash, against the default configuration on free ports. The lines of the
  `text` block that follows must come in its output in this order; `…` stands for anything. So for what `cargo run --release` prints.
- A block marked `yaml check` must pass `trunkline check`.
- Every key of the JSON Schema that has an effect must be named.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import world

PAGE = (world.ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)(?: (run|check))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [match.groups() for match in BLOCK.finditer(PAGE)]
START = BLOCKS.index(("sh", None, "cargo run --release\n"))
PORTS = {port: str(world.free_port()) for port in ("8931", "8932")}


def moved(text: str) -> str:
    """The text with our ports and program in place of the README's."""
    for port, free in PORTS.items():
        text = text.replace(f":{port}", f":{free}")
    return text.replace("target/release/trunkline", str(world.TRUNKLINE))


def run(command: list[str], script: str | None = None, **env: str) -> str:
    done = subprocess.run(
        command, input=script, cwd=world.ROOT, env=os.environ | env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"exit code {done.returncode} of:\n{script or command}\n{done.stdout}{done.stderr}"
    return done.stdout


def shown(expected: str, output: str) -> None:
    """Fails unless the pieces of `expected` come in `output` in this order."""
    at = 0
    for piece in re.split(r"…|\n", moved(expected)):
        found = output.find(piece.strip(), at)
        assert found >= 0, f"missing {piece.strip()!r} in:\n{output}"
        at = found + len(piece.strip())


def run_blocks(folder: Path) -> int:
    config, log = folder / "trunkline.yaml", folder / "log"
    config.write_text(moved((world.ROOT / "config" / "trunkline.yaml").read_text()))
    scripts = [(i, text) for i, (_, mark, text) in enumerate(BLOCKS) if mark == "run"]
    with world.running([str(world.TRUNKLINE), "--config", str(config)], log) as process:
        ready = f"http://127.0.0.1:{PORTS['8932']}/startz"
        world.wait_until(lambda: world.status(ready) == 200, process, log, "trunkline")
        shown(BLOCKS[START + 1][2].replace("config/trunkline.yaml", str(config)), log.read_text())
        for shell in ("sh", "bash"):
            for i, script in scripts:
                language, _, expected = BLOCKS[i + 1]
                assert language == "text", f"no output is shown after:\n{script}"
                shown(expected, run([shell, "-eu"], moved(script), TRUNKLINE_CONFIG=str(config)))
    return len(scripts)


def check_blocks(folder: Path) -> int:
    texts = [text for _, mark, text in BLOCKS if mark == "check"]
    for text in texts:
        file = folder / "example.yaml"
        file.write_text(text)
        run([str(world.TRUNKLINE), "check", "--config", str(file)], GITHUB_TOKEN="x")
    return len(texts)


def name_keys() -> int:
    schema = json.loads(run([str(world.TRUNKLINE), "schema"]))
    keys = []

    def walk(part: dict, path: str = "") -> None:
        for key, inner in part.get("properties", {}).items():
            if "properties" in inner:
                walk(inner, f"{key}.")
            elif not inner["description"].endswith("Of no effect here."):
                keys.append((path, key))

    walk(schema)
    walk(schema["$defs"]["server"])
    missing = [path + key for path, key in keys if f"`{key}`" not in PAGE and f"`{path}{key}`" not in PAGE]
    assert not missing, f"README.md does not name {missing}"
    return len(keys)


with tempfile.TemporaryDirectory(prefix="trunkline-readme-") as name:
    ran, checked, named = run_blocks(Path(name)), check_blocks(Path(name)), name_keys()
    assert ran and checked and named
    print(f"{ran} blocks ran in sh and bash, {checked} checked, {named} keys named")
