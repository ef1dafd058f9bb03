"""Generates packages for the tests, and checks them with the kit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from opwright_kit.scaffold import CHOICES

BIN = Path(sys.executable).parent

PACKAGES = {
    **{f"opwright-{kind}-{language}": (kind, language) for kind, language in CHOICES},
    "opwright-pair-cpp": ("kernel", "cpp"),
    "opwright-pair-cuda": ("kernel", "cuda"),
}
"""A package for each choice, and kernels with two inputs, which have other templates."""

CHECK = """
import json, runpy, sys
from opwright_kit.testing import check_package

cards = {}
for name in sys.argv[1:]:
    runpy.run_path(f"{name}/example.py")
    cards[name] = check_package(name).to_json()
print(json.dumps(cards))
"""
"""Runs the example of each package and checks the package; the last output line is JSON."""


def lay_out(package: Path, folder: Path) -> None:
    """Install the files of a package into a folder, without building it."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    shutil.copytree(package / "src", folder, dirs_exist_ok=True)
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    [(plugin, module)] = project["entry-points"]["opwright.plugins"].items()
    (info / "entry_points.txt").write_text(f"[opwright.plugins]\n{plugin} = {module}\n")


def run_python(folder: Path, *words: str, **variables: str) -> str:
    """Run Python in a folder, with additional environment variables; return its output."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def find_faults(packages: Path, folder: Path, *names: str) -> list[Any]:
    """Check the packages in a folder in a separate process; return the results that are faults.

    Skipped results count as faults, unless a rule has nothing to check.
    """
    variables = {"PYTHONPATH": str(folder), "PYTHONWARNINGS": "error"}
    printed = run_python(packages, "-c", CHECK, *names, **variables)
    cards = json.loads(printed.splitlines()[-1])
    results = [result for name in names for result in cards[name]["results"]]
    assert {result["subject"] for result in results} >= set(names)
    good = [result for result in results if result["state"] == "passed" or is_idle(result)]
    return [result for result in results if result not in good]


def is_idle(result: dict[str, Any]) -> bool:
    """Return whether a rule is not applicable: no attributes, or a missing framework."""
    if result["rule"] in {"jax", "onnx", "torch"}:
        return result["state"] == "skipped" and "no module" in result["reason"].lower()
    return result["rule"] == "rejects-attributes"
