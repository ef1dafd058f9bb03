"""``opwright lock`` writes the lock file of a saved program, or checks an existing lock file."""

from __future__ import annotations

import json

import numpy as np
import pytest

import opwright as ow
from opwright import context_guard
from opwright.cli import main
from opwright.packages import Package

STRANGER = Package("stranger", "opwright-stranger", "3.0")


@pytest.fixture
def context():
    with context_guard(ow.Context.discover()) as made:
        yield made


@pytest.fixture
def folder(tmp_path, monkeypatch, context):
    """A folder with a saved program; the folder becomes the working directory."""
    monkeypatch.chdir(tmp_path)
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1, 8])
    block.append_op("softmax", {"x": "x"}, {"out": "y"})
    ow.save("model", program, ow.Scope(), ["y"])
    return tmp_path


def test_a_compiled_program_uses_the_kernels_of_the_lock(folder, context, capsys):
    assert main(["lock", "model", "--feed", "x=4x8"]) == 0
    assert capsys.readouterr().out.startswith("wrote model.lock: 1 kernels and ")
    (row,) = ow.Lock.load("model.lock").kernels
    assert (row.operator, row.device) == ("softmax", "cpu")

    def ones(x, out, *, axis):
        out.fill(1)

    context.kernels.add(
        "softmax",
        device="cpu",
        dtypes=["float32"],
        kernel=ones,
        library="stranger",
        priority=99,
        package=STRANGER,
    )
    network = ow.Network(ow.load("model", ow.Scope()).program.global_block())
    x = np.ones((2, 8), np.float32)
    for lock, value in ((None, 1.0), ("model.lock", 0.125)):
        (y,) = network.compile(feed=["x"], fetch=["y"], scope=ow.Scope(), lock=lock)(x=x)
        np.testing.assert_array_equal(y, np.full((2, 8), value, np.float32))


def test_check_lists_differences_and_does_not_write(folder, capsys):
    words = ["lock", "model", "--feed", "x=4x8", "-o", "a.lock"]
    assert main(words) == 0
    assert main([*words, "--check"]) == 0
    assert "as locked" in capsys.readouterr().out
    lock = ow.Lock.load("a.lock")
    wider = ow.Lock("cpu", tuple(row._replace(dtype="float64") for row in lock.kernels), ())
    wider = ow.Lock("cpu", lock.kernels + wider.kernels, lock.passes)
    wider.save("a.lock")
    assert main([*words, "--check"]) == 0
    assert ow.Lock.load("a.lock") == wider
    kernels = tuple(row._replace(version="0.0.1") for row in lock.kernels)
    changed = ow.Lock("cpu", kernels, lock.passes)
    changed.save("a.lock")
    assert main([*words, "--check"]) == 1
    error = capsys.readouterr().err
    assert "softmax[cpu, float32]: locked" in error
    assert f"pip install {kernels[0].package}==0.0.1" in error
    assert ow.Lock.load("a.lock") == changed
    assert main(words) == 0  # rewrites the lock
    assert ow.Lock.load("a.lock") == lock


def test_json_output_matches_the_file(folder, capsys):
    assert main(["lock", "model", "--feed", "x=4x8", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    written = json.loads((folder / "model.lock").read_text())
    assert printed.pop("path") == "model.lock"
    assert printed == {key: written[key] for key in ("device", "kernels", "passes")}


def test_a_program_with_dynamic_shapes_is_run_to_lock_all_kernels(folder):
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [4, 4])
    block.append_op("nonzero", {"x": "x"}, {"out": "at"})
    block.append_op("negative", {"x": "at"}, {"out": "y"})
    ow.save("dynamic", program, ow.Scope())  # without fetches, unread values are fetched
    assert main(["lock", "dynamic"]) == 0
    rows = ow.Lock.load("dynamic.lock").kernels
    assert {row.operator for row in rows} == {"nonzero", "negative"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model"], "the feed 'x' must have a shape, got float32[?, 8]; add --feed x=1x8"),
        (["model", "--feed", "y=1x8"], "--feed must name a feed, got 'y'"),
        (["model", "--feed", "x=4x7"], "the feed 'x' is float32[?, 8], got [4, 7]"),
        (["model", "--feed", "x=-1x8"], "--feed must be NAME=SHAPE, got 'x=-1x8'"),
        (["model/program.pb"], "the program must be a folder with parameters"),
        (
            ["model", "--feed", "x=1x8", "-o", "model/program.pb"],
            "must be a new file or an old lock",
        ),
        (["model", "--feed", "x=1x8", "-o", "absent/a.lock"], "its folder must exist"),
        (["model", "--feed", "x=1x8", "--check"], "no such file; write it with opwright lock"),
        (["model", "--device", "gpu9"], "gpu9"),
    ],
)
def test_wrong_usage_is_reported_with_a_remedy(folder, capsys, words, message):
    assert main(["lock", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_damaged_lock_is_an_error(folder, capsys):
    (folder / "a.lock").write_text("{}")
    assert main(["lock", "model", "--feed", "x=1x8", "-o", "a.lock", "--check"]) == 1
    assert "a.lock: damaged, or not a lock of opwright" in capsys.readouterr().err
