"""``opwright run`` runs a saved program on arrays from files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import opwright as ow
from opwright.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with a saved program that has two feeds."""
    monkeypatch.chdir(tmp_path)
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1, 4])
    block.create_var("file", [4])
    block.append_op("add", {"x": "x", "y": "file"}, {"out": "sum"})
    block.append_op("relu", {"x": "sum"}, {"out": "out"})
    ow.save("model", program, ow.Scope(), ["sum", "out"])
    return tmp_path


def test_arrays_from_files_are_fed_and_results_are_written(folder, capsys):
    x, y = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), np.ones(4, np.float32)
    np.savez("in.npz", x=x)
    np.save("y.npy", -y)
    words = ["run", "model", "--input", "in.npz", "--input", "file=y.npy"]
    assert main([*words, "--output", "out.npz", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["results"]["out"]["values"] == np.zeros((3, 4)).tolist()
    with np.load("out.npz") as results:
        np.testing.assert_array_equal(results["sum"], x - y)
    assert main([*words, "--output", "out.npz"]) == 2
    assert "--output must be a new file, got out.npz" in capsys.readouterr().err


def test_random_inputs_are_the_same_in_each_run(folder, capsys):
    printed = []
    for _ in range(2):
        assert main(["run", "model", "--feed", "x=3x4"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0].startswith("  sum  float32[3, 4]  from ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--feed", "x=3x4", "--input", "fil=y.npy"], "--input must name a feed, got 'fil'"),
        (["--feed", "x=3x4", "--input", "y.npy"], "--input must be NAME=FILE.npy"),
        (["--feed", "x=3x4", "--input", "file=absent.npy"], "--input must contain NumPy arrays"),
        (["--feed", "x=3x4", "--input", "file=text.npy"], "--input must contain NumPy arrays"),
        ([], "the feed 'x' must have a shape, got float32[?, 4]; add --feed x=1x4"),
        (["--device", "cuba"], "no device of this name"),
    ],
)
def test_wrong_usage_is_reported_with_a_remedy(folder, words, message, capsys):
    np.save("y.npy", np.ones(4, np.float32))
    (folder / "text.npy").write_text("no array")
    assert main(["run", "model", *words]) == 2
    assert message in capsys.readouterr().err


def test_the_error_for_an_unreadable_file_type_names_the_package_to_install(
    folder, capsys, monkeypatch
):
    (folder / "m.onnx").write_bytes(b"")
    monkeypatch.setenv("OPWRIGHT_PLUGINS", "std,cpu,kit")
    with ow.context_guard(ow.Context.discover()):
        for command in ("run", "graph", "lock"):
            assert main([command, "m.onnx"]) == 2
            error = capsys.readouterr().err
            assert "no installed package reads files such as 'm.onnx'" in error
            assert "pip install opwright-onnx" in error
