"""Reductions by shared memory and by messages are bitwise identical, and all memory is freed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.grid(6)

VARIABLE = "OPWRIGHT_MPI_SHARED_MEMORY"

BITS = """
import hashlib
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()
ops = ow.ops.dist
dist.new_group("turned", range(n - 1, -1, -1))
taken = hashlib.sha256()
# Sizes near one slot of 256 KiB, and a size that exceeds all slots of a process together.
for size in (1, 1000, 65_535, 65_536, 65_537, 3_000_001):
    x = np.random.default_rng(r).normal(size=size).astype(np.float32)
    for reduce in ("sum", "mean", "max", "min"):
        for _ in range(2):
            out = ops.all_reduce(x, reduce=reduce)
            taken.update(out.tobytes())
    out = ops.all_reduce(x, group="turned")
    draws = [np.random.default_rng(k).normal(size=size).astype(np.float32) for k in range(n)]
    wanted = draws[-1]
    for draw in draws[-2::-1]:
        wanted = wanted + draw
    np.testing.assert_array_equal(out, wanted)
for dtype in ("float16", "float64", "int32", "int64"):
    x = np.random.default_rng(r).integers(-9, 9, 300_000).astype(dtype)
    taken.update(ops.all_reduce(x).tobytes())
digests = dist.gather(taken.digest())
assert len(set(digests)) == 1, "the processes differ"
if r == 0:
    print("bits", taken.hexdigest(), dist.current_world().engine.describe())
"""


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_results_are_bitwise_identical_for_every_transport(
    run, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    lines = []
    for choice in ("1", "0"):
        monkeypatch.setenv(VARIABLE, choice)
        done = run(BITS, ranks)
        assert done.returncode == 0, done.stdout + done.stderr
        lines += [line for line in done.stdout.splitlines() if "bits " in line]
    shared, sent = lines
    assert shared.endswith("reductions in shared memory")
    assert "shared memory" not in sent
    assert shared.split("bits ")[1].split()[0] == sent.split("bits ")[1].split()[0]


ORDER = """
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()
block = ow.Program().global_block()
SIZES = (10, 300_000, 2_000_000, 7)
for i, size in enumerate(SIZES):
    block.create_var(f"x{i}", shape=[size], dtype="float32")
    block.append_op("dist.all_reduce", inputs={"x": f"x{i}"}, outputs={"out": f"s{i}"})
# The last reductions are awaited first.
for i in reversed(range(len(SIZES))):
    block.append_op("scale", inputs={"x": f"s{i}"}, outputs={"out": f"y{i}"}, attrs={"scale": 2.0})
context = ow.current_context().with_options({"dist.bucket_bytes": 1})
with ow.context_guard(context):
    names = [f"x{i}" for i in range(len(SIZES))]
    step = ow.Network(block).compile(feed=names, fetch=[f"y{i}" for i in range(len(SIZES))])
    for turn in range(3):
        feeds = {
            name: np.arange(size, dtype=np.float32) % 100 * (r + 1) + turn
            for name, size in zip(names, SIZES)
        }
        for size, out in zip(SIZES, step(**feeds)):
            total = n * (n + 1) // 2
            wanted = 2 * (np.arange(size, dtype=np.float32) % 100 * total + turn * n)
            np.testing.assert_array_equal(out, wanted)
print("good")
"""


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("choice", ["1", "0"])
def test_reductions_can_be_awaited_in_any_order(
    run, monkeypatch: pytest.MonkeyPatch, ranks: int, choice: str
) -> None:
    monkeypatch.setenv(VARIABLE, choice)
    done = run(ORDER, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_if_one_process_disables_shared_memory_no_process_uses_it(run) -> None:
    script = f"""
import os
import sys
rank = next(os.environ[name] for name in ("PMI_ID", "PMI_RANK", "PMIX_RANK") if name in os.environ)
os.environ["{VARIABLE}"] = "0" if rank == "1" else "1"
import numpy as np
import opwright as ow
import opwright_dist as dist
print(dist.current_world().engine.describe())
np.testing.assert_array_equal(ow.ops.dist.all_reduce(np.ones(9, np.float32)), 2)
print("good")
"""
    done = run(script, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "shared memory" not in done.stdout
    assert done.stdout.count("good") == 2


def test_an_invalid_value_of_the_environment_variable_is_refused(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    done = run("import opwright_dist as dist; dist.rank()", 2)
    assert done.returncode != 0
    assert f"{VARIABLE} must be 0 or 1, got 'off'" in done.stdout + done.stderr


def list_shared_files() -> set[str]:
    folder = Path("/dev/shm")
    # Folders are omitted, since a test that runs at the same time may create some.
    return {path.name for path in folder.iterdir() if path.is_file()} if folder.is_dir() else set()


def test_a_killed_process_is_reported_and_its_memory_freed(run) -> None:
    script = """
import os, signal, time
import numpy as np
import opwright as ow
import opwright_dist as dist

x = np.ones(5_000_000, np.float32)
ow.ops.dist.all_reduce(x)
descriptors = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
               if os.path.islink(f"/proc/self/fd/{name}")]
assert not any("memfd:opwright" in name for name in descriptors), descriptors
print("shared", flush=True)
if dist.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
began = time.monotonic()
try:
    ow.ops.dist.all_reduce(x)
except ow.errors.OpwrightError as error:
    print(f"after {time.monotonic() - began:.1f} s: {error}", flush=True)
    raise
"""
    before = list_shared_files()
    done = run(script, 2, deadline=2.0)
    assert done.returncode != 0
    assert done.stdout.count("shared") == 2, done.stdout + done.stderr
    own = {name for name in list_shared_files() - before if "opwright" in name}
    assert not own


HANGING = """
import time
import numpy as np
import opwright as ow
import opwright_dist as dist

x = np.ones(5_000_000, np.float32)
ow.ops.dist.all_reduce(x)
if dist.rank() == 1:
    time.sleep(60)
began = time.monotonic()
try:
    ow.ops.dist.all_reduce(x)
except ow.errors.OpwrightError as error:
    print(error, flush=True)
    print("late" if time.monotonic() - began > 2.5 else "told", flush=True)
    raise
"""


def test_a_rank_absent_from_a_large_reduction_is_reported_at_most_1_s_after_the_deadline(
    run,
) -> None:
    done = run(HANGING, 2, deadline=1.5)
    text = done.stdout + done.stderr
    assert done.returncode != 0
    assert "rank 1 did not arrive within 1.5 s" in text
    assert "told" in text


FAILING = """
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()

def compile_step():
    block = ow.Program().global_block()
    block.create_var("x", shape=[400_000], dtype="float32")
    block.create_var("i", shape=[2], dtype="int64")
    block.append_op("dist.all_reduce", inputs={"x": "x"}, outputs={"out": "s"})
    block.append_op("gather", inputs={"x": "x", "index": "i"}, outputs={"out": "g"})
    block.append_op("scale", inputs={"x": "s"}, outputs={"out": "y"}, attrs={"scale": 1.0})
    return ow.Network(block).compile(feed=["x", "i"], fetch=["g", "y"])


step = compile_step()
x = np.full(400_000, r + 1, np.float32)
for turn in range(4):
    try:
        step(x=x * 7, i=np.array([0, 10**9]))
    except ow.errors.OpwrightError:
        print("failed")
    if turn == 3:  # no later step waits for the started reduction
        del step
        step = compile_step()
    g, y = step(x=x, i=np.array([0, 1]))
    np.testing.assert_array_equal(y, n * (n + 1) // 2)
print("good")
"""


@pytest.mark.parametrize("choice", ["1", "0"])
def test_a_run_succeeds_after_a_run_that_fails_between_start_and_wait(
    run, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    monkeypatch.setenv(VARIABLE, choice)
    done = run(FAILING, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("failed") == 8
    assert done.stdout.count("good") == 2


AT_ONCE = """
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()
block = ow.Program().global_block()
block.create_var("x", shape=[100_000], dtype="float32")
block.append_op("dist.all_reduce", inputs={"x": "x"}, outputs={"out": "s"})
block.append_op("scale", inputs={"x": "x"}, outputs={"out": "y"}, attrs={"scale": 3.0})
network = ow.Network(block)
x = np.arange(100_000, dtype=np.float32)
for fetch in (["s"], ["s", "y"], ["s", "y"] if r else ["s"]):
    step = network.compile(feed=["x"], fetch=fetch)
    np.testing.assert_array_equal(step(x=x)[0], n * x)
    kinds = [op.type for op in network.plan_for({"x": x}).lowered.plan.describe.ops]
    assert ("dist.all_reduce_wait" in kinds) == (fetch != ["s"]), kinds
print("good")
"""


@pytest.mark.parametrize("choice", ["1", "0"])
def test_a_reduction_is_split_only_if_other_operators_run_at_the_same_time(
    run, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    monkeypatch.setenv(VARIABLE, choice)
    done = run(AT_ONCE, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


MOVED = """
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()
ops = ow.ops.dist
# Empty arrays, one element per process, sizes near a part of a 256 KiB slot, and sizes that exceed
# all slots together.
for rows in (0, n, 4096 // n * n, 65_536 // n * n - n, 65_536 // n * n + n, 1_500_000 // n * n):
    for shape, axis in (((rows,), 0), ((2, rows), 1), ((rows, 1), 0)):
        draws = [np.random.default_rng(k).normal(size=shape).astype(np.float32) for k in range(n)]
        x, parts = draws[r], [np.split(draw, n, axis) for draw in draws]
        gathered = ops.all_gather(x, axis=axis)
        np.testing.assert_array_equal(gathered, np.concatenate(draws, axis))
        wanted = np.concatenate([part[r] for part in parts], axis)
        np.testing.assert_array_equal(ops.all_to_all(x, axis=axis), wanted)
        total = draws[0]
        for draw in draws[1:]:
            total = total + draw
        scattered = ops.reduce_scatter(x, axis=axis)
        np.testing.assert_array_equal(scattered, np.split(total, n, axis)[r])
        largest = ops.reduce_scatter(x, axis=axis, reduce="max")
        np.testing.assert_array_equal(largest, np.split(np.max(draws, 0), n, axis)[r])
print("good")
"""


@pytest.mark.parametrize(("ranks", "choice"), [(2, "1"), (3, "1"), (4, "1"), (3, "0")])
def test_collectives_of_any_size_are_correct_for_every_transport(
    run, monkeypatch: pytest.MonkeyPatch, ranks: int, choice: str
) -> None:
    monkeypatch.setenv(VARIABLE, choice)
    done = run(MOVED, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks
