#!/usr/bin/env python3
"""Checks the chart with the real helm: it renders, strictly, what the tests of a pod start from.

    tests/chart.py HELM TRUNKLINE

HELM and TRUNKLINE are the two programs.
"""

import json
import pathlib
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHART = ROOT / "helm" / "trunkline"


def run(*command, code=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
    return done.stdout


def rendered(helm, *options):
    """Kind -> the object of that kind."""
    text = run(helm, "template", "release", CHART, *options)
    return {item["kind"]: item for item in yaml.safe_load_all(text) if item}


def main():
    helm, trunkline = map(pathlib.Path, sys.argv[1:])
    run(helm, "lint", "--strict", CHART)
    run(helm, "template", "release", CHART, "--set", "nonsense=1", code=1)
    json.loads((CHART / "values.schema.json").read_text())
    for grace in (30, 2):
        objects = rendered(helm, "--set", f"terminationGracePeriodSeconds={grace}")
        data, pod = objects["ConfigMap"]["data"], objects["Deployment"]["spec"]["template"]["spec"]
        for name in ("trunkline.yaml", "sidecar.yaml"):
            assert data[name].strip() == (CHART / "files" / name).read_text().strip(), f"{name} is not what is mounted"
        container = pod["containers"][0]
        env = {entry["name"]: entry["value"] for entry in container["env"]}
        lines = (ROOT / "tests" / "fixtures" / "pod" / f"grace-{grace}.env").read_text().split()
        wanted = dict(line.split("=") for line in lines)
        assert {name: env[name] for name in wanted} == wanted, f"grace {grace}: {env}"
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        assert not any("subPath" in mount for mount in mounts.values()), "an edit would not arrive"
        config = pathlib.Path(env["TRUNKLINE_CONFIG"])
        assert str(config.parent) in mounts and config.name in data, env
        assert str(config.parent.parent / "keys") in mounts, "where the file looks for the key"
        assert pod["terminationGracePeriodSeconds"] == grace and pod["automountServiceAccountToken"] is False
    # The file is good where its key is.
    check(trunkline, "trunkline.yaml")
    check(trunkline, "sidecar.yaml")
    print("the chart renders what the tests of a pod start from")


def check(trunkline, name):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for part in ("config", "keys"):
            (pathlib.Path(folder) / part).mkdir()
        (pathlib.Path(folder) / "keys" / "client").write_text("a-key-that-is-long-enough\n")
        file = pathlib.Path(folder) / "config" / name
        file.write_text((CHART / "files" / name).read_text())
        told = run(trunkline, "check", "--config", file)
        assert "warning" not in told, told


if __name__ == "__main__":
    main()
