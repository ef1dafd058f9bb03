"""A kill, an interrupt or a full disk during save leaves the previous save intact."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from every_case import EVERY
from opwright import save
from opwright.errors import FileMissingError

HERE = Path(__file__).parent
KILLS = int(os.environ.get("OPWRIGHT_SAVING_KILLS", "25" if EVERY else "5"))
CLEAN = {"generations", "latest", "params.safetensors", "program.pb"}

CHILD = f"""
import os, pathlib, resource, signal, sys
sys.path[:0] = [{str(HERE)!r}, {str(HERE.parents[2] / "support")!r}]
import saved_model, toy_operators
from opwright.context.context import context_guard
from opwright.program.files.writing import save
context = context_guard(toy_operators.context())
context.__enter__()
"""


def run_child(script, *arguments):
    """Run a script in a separate process and return its exit status."""
    code = CHILD + textwrap.dedent(script)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, timeout=600, check=False).returncode


# `fail` injects a fault before file operation number `step`.
FAIL_AT = """
def save_failing(folder, width, step, fail):
    calls = 0

    def counting(function):
        def wrapper(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == step:
                fail()
            return function(*args, **kwargs)
        return wrapper

    names = ["open", "mkdir", "write", "fsync", "rename", "symlink", "unlink", "rmdir"]
    kept = {name: getattr(os, name) for name in names}
    try:
        for name in names:
            setattr(os, name, counting(kept[name]))
        save(folder, saved_model.build(width), saved_model.filled(2, width), keep=1)
    finally:
        for name in names:
            setattr(os, name, kept[name])
    return calls
"""

KILL_AT_EACH = (
    FAIL_AT
    + """
folder, width = sys.argv[1], int(sys.argv[2])
prepare = getattr(saved_model, sys.argv[3])
step, status = 0, None
while status != 0:
    step += 1
    inner = os.path.join(folder, str(step))
    os.mkdir(inner)
    prepare(pathlib.Path(inner), saved_model.build(), saved_model.filled(1))
    pid = os.fork()
    if pid == 0:
        save_failing(inner, width, step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL), status
"""
)


@pytest.mark.grid(4)
@pytest.mark.parametrize("layout", ["save", "save_pair"])
@pytest.mark.parametrize("width", [5, 3], ids=["other_program", "same_program"])
def test_a_kill_at_any_step_leaves_one_complete_generation(tmp_path, model, width, layout):
    assert run_child(KILL_AT_EACH, tmp_path, width, layout) == 0
    folders = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    assert len(folders) > 30
    seen = [model.load_value(folder) for folder in folders]
    assert set(seen) == {(3, 1), (width, 2)}
    assert seen == sorted(seen, key=lambda value: value[1])
    for folder in folders:
        # The next save works despite leftover files, and removes them.
        save(folder, model.build(6), model.filled(3, 6), keep=1)
        assert model.load_value(folder) == (6, 3)
        assert {path.name for path in folder.iterdir()} == CLEAN
        assert len(list((folder / "generations").iterdir())) == 1


def test_a_killed_first_save_leaves_a_complete_model_or_none(tmp_path, model):
    assert run_child(KILL_AT_EACH, tmp_path, 3, "save_nothing") == 0
    found = set()
    for folder in tmp_path.iterdir():
        if any((folder / "generations").glob("0*")):
            found.add(model.load_value(folder))
            continue
        with pytest.raises(FileMissingError, match="must be a folder that opwright.save has writ"):
            model.load_value(folder)
        found.add(None)
    assert found == {None, (3, 2)}


INTERRUPT_AT_EACH = (
    FAIL_AT
    + """
def interrupt():
    raise KeyboardInterrupt

step = 0
while True:
    step += 1
    inner = os.path.join(sys.argv[1], str(step))
    saved_model.save(inner, saved_model.build(), saved_model.filled(1))
    try:
        save_failing(inner, 3, step, interrupt)
        break
    except KeyboardInterrupt:
        pass
"""
)


def test_an_interrupt_at_any_step_leaves_one_complete_generation(tmp_path, model):
    assert run_child(INTERRUPT_AT_EACH, tmp_path) == 0
    folders = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    seen = [model.load_value(folder) for folder in folders]
    assert set(seen) == {(3, 1), (3, 2)}
    for folder in folders:
        save(folder, model.build(6), model.filled(3, 6))
        assert {path.name for path in folder.iterdir()} == CLEAN
        assert not [path.name for path in (folder / "generations").glob(".*")]


def test_killing_savers_while_other_processes_read_does_not_mix_or_lose_models(tmp_path, campaigns):
    outcome = campaigns.Campaign(tmp_path / "model").run(KILLS)
    assert outcome.findings == []
    assert outcome.loads > 0


def test_each_save_of_two_processes_adds_a_generation(tmp_path, model):
    script = """
    start = sys.stdin.readline()
    for value in range(8):
        save(sys.argv[1], saved_model.build(), saved_model.filled(value), keep=100)
    """
    command = [sys.executable, "-c", CHILD + textwrap.dedent(script), str(tmp_path)]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
    for child in children:
        child.stdin.write(b"\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=600)
    assert [child.returncode for child in children] == [0, 0]
    numbers = sorted(path.name for path in (tmp_path / "generations").iterdir())
    assert numbers == [f"{number:08d}" for number in range(1, 17)]
    values = [model.load_value(tmp_path / "generations" / number)[1] for number in numbers]
    assert sorted(values) == sorted([*range(8), *range(8)])
    assert str((tmp_path / "latest").readlink()) == "generations/00000016"


def test_each_save_of_concurrent_threads_adds_a_generation(tmp_path, model, context):
    from concurrent.futures import ThreadPoolExecutor

    from opwright import context_guard

    def save_value(value):
        with context_guard(context):
            save(tmp_path, model.build(), model.filled(value), keep=100)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save_value, range(8)))
    numbers = sorted(path.name for path in (tmp_path / "generations").iterdir())
    values = [model.load_value(tmp_path / "generations" / number)[1] for number in numbers]
    assert sorted(values) == list(range(8))


FULL_DISK = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    save(sys.argv[1], saved_model.build(5000), saved_model.filled(2, 5000))
except OSError as error:
    sys.exit(7 if sys.argv[3] in str(error) else 8)
"""


@pytest.mark.parametrize(
    ("limit", "name"), [(10_000, "params.safetensors"), (10, "program.pb")], ids=str
)
def test_a_full_disk_leaves_the_old_files(tmp_path, model, limit, name):
    save(tmp_path, model.build(), model.filled(1))
    assert run_child(FULL_DISK, tmp_path, limit, name) == 7
    assert model.load_value(tmp_path) == (3, 1)
    assert {path.name for path in (tmp_path / "generations").iterdir()} == {"00000001"}


def test_a_file_in_place_of_the_folder_is_reported(tmp_path, model):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="file"):
        save(tmp_path / "file", model.build(), model.filled(1))
    assert (tmp_path / "file").read_text() == "mine"
