"""Stored fuzzer cases remain harmless, and the fuzzer detects every kind of fault."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
CORPUS = sorted((HERE / "corpus").rglob("*.json"))
NEEDS_ONNX = pytest.mark.skipif(
    importlib.util.find_spec("onnx") is None, reason="onnx is not installed; make test-onnx has it"
)
TARGETS = [
    pytest.param(target, marks=NEEDS_ONNX if target.startswith("onnx") else ())
    for target in sorted({path.parent.name for path in CORPUS})
]


def forget_modules():
    """Remove the modules of this folder from `sys.modules`, since other tests reuse their names."""
    names = {path.stem for path in HERE.iterdir()} - {Path(__file__).stem}
    return {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] in names}


@pytest.fixture
def modules(monkeypatch):
    """Make the modules of this folder importable, and unload them after the test."""
    monkeypatch.syspath_prepend(str(HERE.parent / "std" / "operators"))
    monkeypatch.syspath_prepend(str(HERE))
    others = forget_modules()
    yield
    forget_modules()
    sys.modules.update(others)


def worker(tmp_path, *args, **environ):
    """Run worker.py with these arguments in a child process."""
    return subprocess.run(
        [sys.executable, str(HERE / "worker.py"), *args],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path), **environ},
        timeout=600,
    )


@pytest.mark.parametrize("target", TARGETS)
def test_a_stored_case_returns_a_result_or_raises_an_intentional_error(target, tmp_path):
    paths = [str(path) for path in CORPUS if path.parent.name == target]
    done = worker(tmp_path, "replay", *paths)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.split() == [Path(path).name for path in paths]


@pytest.mark.parametrize(
    ("planted", "reason"),
    [
        ("crash", "ended by SIGSEGV"),
        ("hang", "a case took more than 1 seconds"),
    ],
)
def test_a_case_that_terminates_its_process_is_identified_by_its_index(
    modules, tmp_path, planted, reason
):
    from watch import watch_worker
    from worker import Job

    job = Job("planted", 3, 0, 1000, 600.0, str(tmp_path / "progress"), str(tmp_path / "found"))
    ending = watch_worker(job, sys.executable, {**os.environ, "PLANTED": planted}, hang_s=1.0)
    assert ending.reason == reason
    assert ending.index == ending.done
    assert "planted.py" in ending.text
    again = watch_worker(job, sys.executable, {**os.environ, "PLANTED": planted}, hang_s=1.0)
    assert again.index == ending.index


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ("memory", "MemoryError: "),
        ("error", "KeyError: 'a name'"),
        ("cause", "IndexError: tuple index out of range"),
    ],
)
def test_an_unintentional_error_is_reported_as_a_fault(tmp_path, planted, fault):
    lines = run_planted(tmp_path, planted)
    assert lines
    assert {line["fault"] for line in lines} == {fault}


def test_memory_growth_is_reported_as_a_fault_of_the_case_that_grew(tmp_path):
    (line,) = run_planted(tmp_path, "growth")
    assert line["fault"] == "more than 1 GB of growth"


def test_a_refusal_is_not_reported_as_a_fault(tmp_path):
    assert run_planted(tmp_path, "refusal") == []


def run_planted(tmp_path, planted):
    """Run a job of planted cases; return the recorded faults."""
    progress, found = tmp_path / "progress", tmp_path / "found"
    progress.write_bytes(bytes(24))
    job = {"target": "planted", "seed": 3, "begin": 0, "end": 40, "seconds": 600.0}
    job |= {"progress": str(progress), "found": str(found)}
    worker(tmp_path, "run", json.dumps(job), PLANTED=planted)
    return [json.loads(line) for line in found.read_text().splitlines()] if found.exists() else []


@pytest.mark.parametrize(
    "target", ["appended", "calls", "files", "gradients", "programs", "training", "writers"]
)
def test_a_case_is_determined_by_seed_and_index_and_can_be_stored(
    modules, tmp_path, monkeypatch, target
):
    import importlib

    from recorded import decode, encode
    from worker import draw

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    module = importlib.import_module(f"targets.{target}")
    for index in range(30):
        case = draw(module, 5, index, random.Random(1))
        same = draw(module, 5, index, random.Random(2))
        assert encode(case) == encode(same)
        assert encode(decode(json.loads(json.dumps(encode(case))))) == encode(case)


def test_an_array_is_stored_with_its_values_dtype_and_layout(modules):
    from recorded import decode, encode

    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    for kept in (array, array.T, array[:0], np.array(np.nan, np.float32)):
        read = decode(json.loads(json.dumps(encode(kept))))
        np.testing.assert_array_equal(read, kept)
        assert (read.dtype, read.shape) == (kept.dtype, kept.shape)
        assert read.flags.c_contiguous == kept.flags.c_contiguous


def test_the_command_runs_each_target_and_counts_its_cases(tmp_path):
    command = [sys.executable, str(HERE / "run.py"), "--counted", "--corpus", str(tmp_path)]
    done = subprocess.run(
        [*command, "files", "writers"], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "files: 600 cases, " in done.stdout
    assert "writers: 90 cases, " in done.stdout
    assert done.stdout.endswith("\n690 cases, 0 kinds of faults\n")


def test_the_command_exits_after_its_time_limit(tmp_path):
    command = [sys.executable, str(HERE / "run.py"), "--seconds", "0.1", "--jobs", "1"]
    done = subprocess.run(
        [*command, "--corpus", str(tmp_path), "locks"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "locks: " in done.stdout
