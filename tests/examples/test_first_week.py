"""The ten scripts in examples/first_week run, and are hardly longer than in Keras."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import opwright as ow
import opwright_nn as nn
from keras_page import MARK, PAGE, SCRIPTS, count_code_lines, make_pairs, read_pair

MAX_RATIO = 1.3

RESULTS = {
    "01_regression": (r"error: ([\d.e-]+)", 0.0, 0.2),
    "02_cnn": (r"accuracy: ([\d.]+)", 0.9, 1.0),
    "03_schedule_and_early_stopping": (r"epochs: \d+ accuracy: ([\d.]+)", 0.9, 1.0),
    "04_save_and_resume": (r"loaded the same: (True)", 1, 1),
    "05_custom_loss": (r"below each quantile: \[\S+ +([\d.]+)", 0.4, 0.6),
    "06_two_inputs_two_losses": (r"accuracy\s[^Z]*\n +10 .*? (0\.9\d*|1)", 0.9, 1.0),
    "07_freeze_and_fine_tune": (r"accuracy: ([\d.]+)", 0.9, 1.0),
    "08_text_with_masks": (r"\[(1) 0 0 1 1 0\]", 1, 1),
    "09_lstm_and_transformer": (r"transformer \[\[4 5 (6)\]\]", 6, 6),
    "10_serve_in_threads": (r"accuracy: ([\d.]+)", 0.9, 1.0),
}
"""A pattern for the output of each script, and the limits of its first group."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs_and_learns(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    pattern, low, high = RESULTS[script.stem]
    match = re.search(pattern, done.stdout)
    assert match, done.stdout
    value = 1.0 if match[1] == "True" else float(match[1])
    assert low <= value <= high, done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_is_hardly_longer_than_its_keras_version(script: Path) -> None:
    own, other = map(count_code_lines, read_pair(script))
    assert 0 < own <= MAX_RATIO * other


def test_the_page_shows_the_scripts_unchanged() -> None:
    text = PAGE.read_text(encoding="utf-8").partition(MARK)[2]
    assert text == make_pairs(), "run python tests/support/keras_page.py"


def test_the_page_names_existing_objects() -> None:
    rows = re.findall(r"^\|.*\|$", PAGE.read_text(encoding="utf-8").partition(MARK)[0], re.M)
    table = "\n".join(row.split("|", 2)[2] for row in rows)
    roots = {"nn": nn, "model": nn.Model, "ow": ow, "history": nn.History}
    names = re.findall(r"`(nn|model|ow|history)\.([\w.]+)", table)
    assert len(names) > 20
    for root, path in names:
        value = roots[root]
        for part in path.split("."):
            assert hasattr(value, part), f"{root}.{path}"
            value = getattr(value, part)


@pytest.mark.parametrize(
    ("source", "n_lines"),
    [
        ('"""Doc."""\n\nx = 1  # why\n# comment\n', 1),
        ("f(\n    1,\n\n    2,\n)\n", 4),
        ('def f():\n    """Doc.\n\n    More.\n    """\n    return """a\n\nb"""\n', 4),
    ],
)
def test_code_lines_exclude_blank_lines_comments_and_docstrings(source: str, n_lines: int) -> None:
    assert count_code_lines(source) == n_lines
