"""The load_batches worker processes: when they exit, and how failures are reported."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys

import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError
from opwright_nn.datasets import LoadError


@pytest.fixture(autouse=True)
def no_worker_is_left():
    yield
    gc.collect()
    assert not multiprocessing.active_children()


def listed(batches):
    return [[array.tolist() for array in batch] for batch in batches]


def find_workers():
    return {process.pid for process in multiprocessing.active_children()}


def test_workers_keep_running_between_epochs_until_they_are_closed(functions, paths):
    loader = nn.load_batches(paths, 3, map=functions.decode, workers=2)
    whole = listed(loader.repeat(3))
    workers = find_workers()
    assert len(workers) == 2
    for batch in loader:
        assert listed([batch]) == whole[:1]
        break
    assert listed(loader) == whole[1:4]
    assert listed(loader) == whole[4:8]
    assert listed(loader.whole()) == whole[:4]
    assert find_workers() == workers
    loader.close()
    assert not find_workers()
    assert listed(loader) == whole[8:]
    assert len(find_workers()) == 2


def test_workers_exit_with_the_last_loader_that_uses_them(functions, paths):
    loader = nn.load_batches(paths, 3, map=functions.decode, workers=2, epochs=9)
    twin = loader.repeat(9)
    next(loader)
    del loader
    gc.collect()
    assert len(listed([next(twin)])) == 1
    assert len(find_workers()) == 2
    del twin
    gc.collect()
    assert not find_workers()


def test_loops_that_share_workers_receive_their_own_batches(functions, paths):
    loader = nn.load_batches(paths, 3, map=functions.decode, workers=2, seed=1)
    whole = listed(loader.repeat(1))
    first, second = loader.repeat(1), loader.repeat(3)
    seen = [listed([next(batches)])[0] for _ in range(3) for batches in (first, second)]
    assert seen == [batch for batch in whole[:3] for _ in range(2)]
    del second  # with batches that were not received
    gc.collect()
    assert listed(first) == whole[3:]
    assert listed(loader) == whole
    assert len(find_workers()) == 2


def test_a_worker_killed_between_two_epochs_is_restarted(functions, paths):
    loader = nn.load_batches(paths, 3, map=functions.decode, workers=2, epochs=2)
    whole = listed(loader.repeat(2))
    assert listed(next(loader) for _ in range(4)) == whole[:4]
    loader.restore(loader.position)  # drops items decoded ahead
    killed, other = multiprocessing.active_children()
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    assert listed(loader) == whole[4:]
    assert other.pid in find_workers()
    assert len(find_workers()) == 2


def test_large_batches_arrive_completely_and_are_writable(functions):
    loader = nn.load_batches([3_000_000] * 3, 1, map=functions.ragged, workers=1, ahead=3)
    for (batch,) in loader:
        assert batch.shape == (1, 3_000_000)
        assert not batch.any()
        batch[...] = 1
        assert batch.all()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_worker_is_reported(functions, workers):
    items = list(range(9))
    loader = nn.load_batches(items, 1, map=functions.killed, workers=workers, shuffle=False)
    seen = []
    with pytest.raises(LoadError, match=f"ended with exit code -{int(signal.SIGKILL)}"):
        seen.extend(int(batch[0][0]) for batch in loader)
    assert seen == list(range(len(seen)))
    assert len(seen) <= 5


@pytest.mark.parametrize("workers", [1, 2])
def test_the_error_for_a_stuck_worker_names_its_items(functions, workers):
    items = [2, 3, 4, 5]
    loader = nn.load_batches(
        items, 2, map=functions.stuck, workers=workers, timeout=0.5, shuffle=False
    )
    rule = (
        r"within timeout=0.5 seconds, got nothing from process \d+ for items 0, 1, the first.* 2;"
    )
    for _ in range(2):
        with pytest.raises(LoadError, match=rule):
            next(loader)
        assert len(multiprocessing.active_children()) == workers - 1


def test_a_timeout_that_is_not_exceeded_does_not_change_the_batches(functions, paths):
    whole = listed(nn.load_batches(paths, 3, map=functions.decode))
    loader = nn.load_batches(paths, 3, map=functions.decode, workers=2, timeout=500)
    assert listed(loader) == whole
    assert listed(loader.repeat(1)) == whole


def test_a_worker_killed_from_outside_is_reported(functions):
    loader = nn.load_batches(range(99), 1, map=functions.ragged, workers=1, shuffle=False)
    batches = iter(loader)
    next(batches)
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    with pytest.raises(LoadError, match="ended with exit code"):
        list(batches)


def test_workers_ignore_interrupts_which_the_iterating_process_handles(functions):
    loader = nn.load_batches(range(50), 1, map=functions.ragged, workers=1, shuffle=False)
    batches = iter(loader)
    next(batches)
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGINT)
    assert len(list(batches)) == 49


def test_an_object_that_cannot_be_pickled_is_refused():
    with pytest.raises(AttributeTypeError, match="map and data must be picklable .* workers=0"):
        next(iter(nn.load_batches([1], 1, map=lambda x: x, workers=1)))


SCRIPT = """
import signal, sys
import opwright_nn as nn
from functions_of_loading import ragged

if __name__ == "__main__":
    for _ in nn.load_batches([3] * 9000, 1, map=ragged, workers=2):
        print("running", flush=True)
"""


def test_an_interrupt_terminates_the_script_and_its_workers(functions, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    script = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert script.stdout.readline() == "running\n"
    os.killpg(script.pid, signal.SIGINT)  # to all processes, as a terminal does
    _, errors = script.communicate(timeout=600)  # returns after the last process exits
    assert script.returncode == -signal.SIGINT
    assert errors.count("KeyboardInterrupt") == 1


def test_an_interrupt_within_a_batch_leaves_no_files(functions, paths, monkeypatch):
    loader = nn.load_batches(paths, 3, map=functions.decode, workers=2)
    whole = listed(loader.repeat(1))

    def interrupted(connection):
        connection.recv()  # but not the arrays that follow
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("opwright_nn.datasets.workers._receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(loader)
    assert listed(loader) == whole
