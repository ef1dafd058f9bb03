"""The scripts in examples/models reach the scores of their short runs, and are documented."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "models"
SCRIPTS = sorted(file for file in FOLDER.glob("*.py") if file.name != "example.py")
PAGE = ROOT / "docs" / "classic_models.md"
PARTS = ("Data", "Network", "Score", "Time", "Reference")
SCORE = re.compile(r"^[\w -]+: \S+, wanted: at (least|most) \S+$")
MAX_PICTURE_BYTES = 60_000

every_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)

MISSED = """
import argparse, example
import opwright_nn as nn
arguments = argparse.Namespace(short=True, plot=None)
history = nn.History([{"epoch": 1, "accuracy": 0.5}])
example.finish(arguments, history, "accuracy", at_least=0.5)
example.finish(arguments, history, "error", 2.0, at_most=2.5)
example.finish(arguments, history, %s)
"""


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{FOLDER}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@every_script
def test_the_short_run_reaches_its_score(script: Path, tmp_path: Path) -> None:
    if "datasets.scikit" in script.read_text(encoding="utf-8"):
        pytest.importorskip("sklearn.datasets")
    done = run(str(script), "--short", cwd=tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert SCORE.match(done.stdout.splitlines()[-1]), done.stdout
    assert not list(tmp_path.iterdir()), "a script writes files only where it is asked to"


@pytest.mark.parametrize(
    "missed",
    ['"accuracy", at_least=0.6', '"error", 2.0, at_most=1.9', '"loss", float("nan"), at_most=1'],
)
def test_a_missed_score_exits_with_status_1(missed: str, tmp_path: Path) -> None:
    done = run("-c", MISSED % missed, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert not done.stderr
    assert len(done.stdout.splitlines()) == 3


@every_script
def test_the_docstring_states_every_required_fact(script: Path) -> None:
    source = script.read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(source))
    assert doc
    for part in PARTS:
        assert re.search(rf"^{part}: ", doc, re.MULTILINE), f"{script.name} does not state {part}"
    stated = re.search(r"^Score: .*?at (?:least|most) ([\d.]*\d)", doc, re.MULTILINE | re.DOTALL)
    assert stated, f"{script.name} does not state the score of the whole run"
    assert re.search(rf"else {re.escape(stated[1])}\b", source), "the script checks another score"


@every_script
def test_the_page_shows_every_script_with_an_image(script: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"](../examples/models/{script.name})" in page, f"{PAGE.name} lacks {script.name}"
    pictures = re.findall(rf"\]\((figures/models/{script.stem}\w*\.(?:png|svg))\)", page)
    assert pictures, f"{PAGE.name} has no picture of {script.name}"
    for picture in pictures:
        assert (PAGE.parent / picture).stat().st_size <= MAX_PICTURE_BYTES, picture
