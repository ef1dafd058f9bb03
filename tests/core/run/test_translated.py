"""Translated programs are saved after their results are computed, by one thread at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opwright as ow

BEGIN = """
import threading, time
import numpy as np
import opwright as ow
from opwright.run import plan_cache_writing as writing
from opwright.run.loaded import LoadedProgram
from opwright.run.translated import load_translated

def translate():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = main.global_block().create_var("x", shape=[-1, 8], is_data=True)
        w = main.global_block().create_var("w", shape=[8], persistable=True)
        y = ow.ops.add(ow.ops.relu(x), w)
    scope = ow.Scope()
    scope.var("w").set(np.full(8, 0.5, "float32"))
    return LoadedProgram(main, scope, [y.name], ["x"])

def load():
    return load_translated(b"content", translate)

def wait():
    for thread in threading.enumerate():
        if thread.name == "opwright-keep":
            thread.join()

def ones(batch):
    return np.ones((batch, 8), "float32")
"""

SHAPES = f"""{BEGIN}
running, most, keep_model = [], [], writing.keep_model

def slow(*arguments):
    running.append(1)
    most.append(len(running))
    time.sleep(0.2)
    place = keep_model(*arguments)
    running.pop()
    return place

writing.keep_model = slow
model = load()
callers = [threading.Thread(target=model, args=(ones(n),)) for n in range(1, 9)]
for caller in callers:
    caller.start()
    time.sleep(0.02)
for caller in callers:
    caller.join()
wait()
print(most, type(load()).__name__)
"""

LATER = f"""{BEGIN}
import opwright.lowering
def refuse(*_):
    raise AssertionError("lowered again")
opwright.lowering.lower = refuse
model = load()
print(type(model).__name__, *(model(ones(n))[0].sum() for n in (1, 8)))
"""

CHANGED = f"""{BEGIN}
changed, keep_model = threading.Event(), writing.keep_model

def late(*arguments):
    changed.wait()
    return keep_model(*arguments)

writing.keep_model = late
model = load()
model(ones(1))
model.scope.var("w").set(np.zeros(8, "float32"))
changed.set()
wait()
for n in range(2, 6):
    model(ones(n))
wait()
keeper = model.keep.__self__
print(len(keeper._plans), keeper._is_over)
"""

FAILED = f"""{BEGIN}
import os
def fail(path, chunks):
    if path.endswith(".record"):
        raise OSError(28, "no space left on device")
    write(path, chunks)
write, writing.write_trusted = writing.write_trusted, fail
model = load()
for n in (1, 2, 3):
    print(model(ones(n))[0].sum())
    wait()
print([name for _, names, files in os.walk(os.environ["OPWRIGHT_CACHE_DIR"] + "/models")
       for name in names + files])
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))

    def run_one(code: str) -> list[str]:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run_one


def test_concurrent_calls_save_the_model_once_with_all_plans(run) -> None:
    assert run(SHAPES) == ["[1] CachedProgram"]
    assert run(LATER) == ["CachedProgram 12.0 96.0"]


def test_plans_are_not_kept_for_saving_after_a_variable_was_set(run) -> None:
    assert run(CHANGED) == ["0 True"]


def test_a_model_that_cannot_be_saved_still_computes_and_leaves_no_files(run) -> None:
    assert run(FAILED) == ["12.0", "24.0", "36.0", "[]"]


def test_the_operators_of_a_call_are_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[ow.Program] = []
    clone = ow.Program.clone

    def note(program: ow.Program, **choices: bool) -> ow.Program:
        copies.append(program)
        return clone(program, **choices)

    monkeypatch.setattr(ow.Program, "clone", note)
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = main.global_block().create_var("x", shape=[-1, 8], is_data=True)
        y = ow.ops.relu(x)
        ow.ops.tanh(x)
    program = ow.LoadedProgram(main, ow.Scope(), [y.name], ["x"])
    assert program.report().operators == {"relu": 1}
    program(np.ones((2, 8), "float32"))
    assert copies == [main]
