"""A crash or a full disk during save leaves the old files whole, or the new ones."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from opwright.errors import FormatError
from opwright.saving import load, pair, save

HERE = Path(__file__).parent

CHILD = f"""
import os, resource, signal, sys
sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent)!r}]
import saved_model, toy_operators
from opwright.context import context_guard
from opwright.saving import pair, save
context = context_guard(toy_operators.context())
context.__enter__()
"""


def run_child(script, *arguments):
    """Run a script in a process of its own and return its exit status."""
    code = CHILD + textwrap.dedent(script)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, timeout=60, check=False).returncode


def load_value(folder, model):
    """Load a folder and return (width, value), after checking that all arrays are of one save."""
    scope = model.ArrayScope()
    loaded = load(folder, scope)
    w = scope.arrays()["w"]
    assert loaded.program.global_block().var("w").shape == w.shape
    assert (w == w[0, 0]).all()
    assert scope.arrays()["count"] == scope.arrays()["@step"][0] == w[0, 0]
    return w.shape[1], int(w[0, 0])


KILL_AT = """
calls = 0

def counting(function):
    def wrapper(*args, **kwargs):
        global calls
        calls += 1
        if calls == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return wrapper

os.fsync = counting(os.fsync)
pair.Path.replace = counting(pair.Path.replace)
width = int(sys.argv[3])
save(sys.argv[1], saved_model.build(width), saved_model.filled(2, width))
"""


@pytest.mark.parametrize("width", [3, 5], ids=["same_program", "other_program"])
def test_a_kill_at_any_step_leaves_one_whole_pair(tmp_path, model, width):
    seen = []
    for step in range(1, 20):
        folder = tmp_path / str(step)
        save(folder, model.build(), model.filled(1))
        status = run_child(KILL_AT, folder, step, width)
        seen.append(load_value(folder, model))
        assert seen[-1] in [(3, 1), (width, 2)]
        # What was left over does not harm the next save, even one that is killed at once.
        assert run_child(KILL_AT, folder, 1, 4) == -signal.SIGKILL
        assert load_value(folder, model) == seen[-1]
        save(folder, model.build(6), model.filled(3, 6))
        assert load_value(folder, model) == (6, 3)
        assert len(list(folder.iterdir())) == 2
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert status == 0
    assert step == 8
    assert seen == sorted(seen, key=lambda found: found[1])


def test_the_first_save_that_is_killed_leaves_nothing_or_all(tmp_path, model):
    for step in range(1, 8):
        folder = tmp_path / str(step)
        assert run_child(KILL_AT, folder, step, 3) == -signal.SIGKILL
        if (folder / "program.pb").exists():
            assert load_value(folder, model) == (3, 2)
        else:
            with pytest.raises(FileNotFoundError, match=r"program\.pb"):
                load_value(folder, model)


def test_kills_at_random_times(tmp_path, model):
    save(tmp_path, model.build(), model.filled(1))
    script = """
    for value in range(2, 10**6):
        width = 3 + value % 2 * 2000
        save(sys.argv[1], saved_model.build(width), saved_model.filled(value, width))
        print(value, flush=True)
    """
    command = [sys.executable, "-c", CHILD + textwrap.dedent(script), str(tmp_path)]
    rng = np.random.default_rng(5)
    for _ in range(4):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            child.stdout.readline()
            try:
                child.wait(timeout=rng.uniform(0, 0.05))
            except subprocess.TimeoutExpired:
                child.kill()
        width, value = load_value(tmp_path, model)
        assert width == 3 + value % 2 * 2000


def test_a_full_disk_leaves_the_old_files(tmp_path, model):
    save(tmp_path, model.build(), model.filled(1))
    script = """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    try:
        save(sys.argv[1], saved_model.build(5000), saved_model.filled(2, 5000))
    except OSError as error:
        sys.exit(7 if "params.safetensors.new: cannot be written" in str(error) else 8)
    """
    assert run_child(script, tmp_path) == 7
    assert load_value(tmp_path, model) == (3, 1)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_disk_that_is_full_for_the_program_leaves_the_old_files(tmp_path, model, monkeypatch):
    save(tmp_path, model.build(), model.filled(1))

    def fail(path, data):
        path.write_bytes(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pair, "_write", fail)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, model.build(5), model.filled(2, 5))
    assert load_value(tmp_path, model) == (3, 1)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_is_a_file(tmp_path, model):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="file"):
        save(tmp_path / "file", model.build(), model.filled(1))
    assert (tmp_path / "file").read_text() == "mine"


def test_leftovers_of_a_foreign_save_are_not_taken(tmp_path, model):
    save(tmp_path, model.build(), model.filled(1))
    save(tmp_path / "other", model.build(5), model.filled(2, 5))
    foreign = tmp_path / "other" / "params.safetensors"
    foreign.replace(tmp_path / "params.safetensors.new")
    assert load_value(tmp_path, model) == (3, 1)
    (tmp_path / "params.safetensors").unlink()
    with pytest.raises((FormatError, FileNotFoundError), match=r"params\.safetensors"):
        load_value(tmp_path, model)
