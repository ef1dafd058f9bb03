"""``opwright graph`` draws a saved program on an HTML page."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import opwright as ow
from opwright.cli import main


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Save a small model, and change into its folder."""
    monkeypatch.chdir(tmp_path)
    with ow.program_guard(ow.Program(), ow.Program()) as (program, _):
        block = program.global_block()
        x = block.create_var("x", [-1, 3], is_data=True)
        labels = block.create_var("labels", [4], "int64", is_data=True)
        w = block.create_parameter("w", [3, 2])
        y = ow.ops.softmax(ow.ops.matmul(x, w))
        rows = ow.ops.one_hot(labels, depth=2)
        scope = ow.Scope()
        scope.var("w").set(np.ones((3, 2), np.float32))
        ow.save("model", program, scope, fetch=[y, rows])
    return tmp_path / "model"


def test_a_saved_folder_becomes_a_page_named_after_it(model):
    command = [sys.executable, "-m", "opwright", "graph", "model"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "wrote model.html: 3 operators in 1 block; open it in a browser\n"
    assert (model.parent / "model.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_without_a_profile_only_the_program_file_is_needed(model, capsys):
    (model / "params.safetensors").unlink()
    assert main(["graph", "model/program.pb", "--output", "a.html", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["path"], printed["operators"], printed["profile"]) == ("a.html", 3, None)


def test_a_profile_runs_on_random_feeds_of_the_given_shapes(model, capsys):
    words = ["graph", "model", "--profile", "--feed", "x=4x3", "--runs", "2", "--json"]
    assert main(words) == 0
    profile = json.loads(capsys.readouterr().out)["profile"]
    assert (profile["device"], profile["n_runs"]) == ("cpu", 2)
    assert profile["rows"]
    assert main([*words[:-1], "--force"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("profile of 2 runs on cpu")
    assert "wrote model.html: 3 operators" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "nothing: must be a folder that opwright.save has written, with program.pb"),
        (["."], "got a folder without program.pb"),
        (["model", "--feed", "x=4x3"], "--feed needs --profile, got 'x=4x3'"),
        (["model", "--profile"], r"'x' must have a shape, got float32[?, 3]; add --feed x=1x3"),
        (["model", "--profile", "--feed", "x=4x2"], "the feed 'x' is float32[?, 3], got [4, 2]"),
        (["model", "--profile", "--feed", "x"], "--feed must be NAME=SHAPE, got 'x'"),
        (["model", "--profile", "--feed", "label=4"], "did you mean 'labels'?"),
        (["model/program.pb", "--profile"], "--profile needs the folder with the parameters"),
        (["model", "--profile", "--feed", "x=4x3", "--runs", "0"], "an int in [1, 10000], got 0"),
        (["model", "--device", "cud"], "cud: no device of this name"),
        (["model", "--output", "model"], "a file to write, got the folder model"),
        (["model", "--output", "no/page.html"], "the folder must exist, got no"),
        (["model/params.safetensors"], "not a program of opwright"),
    ],
)
def test_a_mistake_is_reported_and_nothing_is_written(model, capsys, words, message):
    assert main(["graph", *words]) in {1, 2}
    assert message in capsys.readouterr().err
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_an_existing_page_is_not_overwritten(model, capsys):
    (model.parent / "model.html").write_text("mine")
    assert main(["graph", "model"]) == 2
    assert "replace it with --force" in capsys.readouterr().err
    assert (model.parent / "model.html").read_text() == "mine"
