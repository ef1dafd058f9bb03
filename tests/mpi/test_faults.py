"""If a process differs, fails, exits or is absent, the other processes report it."""

from __future__ import annotations

HEAD = """
import os, sys, time
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()
X = np.ones(8, np.float32)


def network(*collectives):
    block = ow.Program().global_block()
    x = block.create_var("x", shape=[8], dtype="float32")
    for i, name in enumerate(collectives):
        block.append_op(f"dist.{name}", inputs={"x": x}, outputs={"out": f"out{i}"})
    return ow.Network(block)
"""


def test_the_error_for_differing_plans_names_the_first_operator_on_both_ranks(run) -> None:
    script = """
names = ["all_reduce", "broadcast" if r else "all_to_all"]
run = network(*names).compile(feed=["x"], fetch=["out0"])
try:
    run(x=X)
except ow.errors.OpwrightError as error:
    print(error)
same = network("all_to_all").compile(feed=["x"], fetch=["out0"])
same(x=X)
print("goes on")
"""
    done = run(HEAD + script, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = "operator 2 of block 0: dist.{}) -> out=out1 float32[8] on rank {}"
    first = wanted.format("all_to_all(x=x, axis=0, group='world'", 0)
    assert done.stdout.count(first) == 2
    assert done.stdout.count(wanted.format("broadcast(x=x, root=0, group='world'", 1)) == 2
    assert done.stdout.count("goes on") == 2


def test_the_error_for_differing_feeds_names_the_first_collective_on_both_ranks(run) -> None:
    script = """
block = ow.Program().global_block()
block.create_var("x", shape=[-1], dtype="float32")
block.append_op("dist.all_reduce", inputs={"x": "x"}, outputs={"out": "out"})
try:
    ow.Network(block).compile(feed=["x"], fetch=["out"])(x=X[r:])
except ow.errors.OpwrightError as error:
    print(error)
"""
    done = run(HEAD + script, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("collective 1: dist.all_reduce(reduce=sum, unequal_rows=refuse)") == 4
    assert done.stdout.count("of float32 [8] on rank 0") == 2
    assert done.stdout.count("of float32 [7] on rank 1") == 2


def test_differing_fetches_run_the_same_collectives(run) -> None:
    script = """
net = network("all_reduce", "all_gather")
fetch = ["out0", "out1"] if r == 0 else ["out1"]
out = net.compile(feed=["x"], fetch=fetch)(x=X * (r + 1))
np.testing.assert_array_equal(out[-1], np.repeat([1, 2], 8))
print("good")
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("good") == 2, done.stdout + done.stderr


def test_an_exception_on_one_rank_terminates_all_ranks(run) -> None:
    script = """
if r == 1:
    raise ValueError("a fault of the user")
ow.ops.dist.all_reduce(X)
"""
    done = run(HEAD + script, 2)
    assert done.returncode != 0
    assert "a fault of the user" in done.stderr + done.stdout
    assert "opwright-mpi: rank 1 exited with code 1; all processes are terminated" in done.stderr


def test_a_rank_that_exits_early_is_reported(run) -> None:
    script = """
if r == 1:
    sys.exit(0)
ow.ops.dist.all_reduce(X)
"""
    done = run(HEAD + script, 2)
    assert done.returncode != 0
    assert "rank 1 has exited before this collective" in done.stderr + done.stdout


def test_an_absent_rank_is_reported_after_the_deadline(run) -> None:
    script = """
if r == 1:
    time.sleep(60)
try:
    ow.ops.dist.all_reduce(X)
except ow.errors.OpwrightError as error:
    print(error, flush=True)
try:
    ow.ops.dist.all_reduce(X)
except ow.errors.OpwrightError as error:
    print(error, flush=True)
    raise
"""
    done = run(HEAD + script, 2, deadline=1.0)
    text = done.stderr + done.stdout
    assert done.returncode != 0
    assert "dist.all_reduce: group 'world': rank 1 did not arrive within 1 s" in text
    assert "is unusable since a collective failed" in text


def test_a_rank_that_continues_after_the_other_ranks_have_exited_is_reported(run) -> None:
    done = run(HEAD + "if r == 1:\n    time.sleep(1000)\n", 2, deadline=1.0)
    assert done.returncode == 1
    assert "opwright-mpi: rank 0 ended, and rank 1 did not within 1 s" in done.stderr


def test_a_rank_that_is_killed_in_a_collective_is_reported(run) -> None:
    script = """
if r == 1:
    os.kill(os.getpid(), 9)
ow.ops.dist.all_reduce(X)
"""
    done = run(HEAD + script, 3)
    assert done.returncode == 137
    assert (
        "opwright-mpi: rank 1 was terminated by SIGKILL; all processes are terminated"
        in done.stderr
    )


def test_a_collective_after_mpi_finalize_raises(run) -> None:
    script = """
import ctypes
from opwright_mpi.library import find_library

ctypes.CDLL(find_library()).MPI_Finalize()
try:
    ow.ops.dist.all_reduce(X)
except ow.errors.OpwrightError as error:
    print(error)
"""
    done = run(HEAD + script, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("MPI was finalized in this process and cannot start again; fina") == 2


def test_connecting_after_mpi_finalize_raises(run) -> None:
    script = """
import ctypes
import opwright_dist as dist
from opwright_mpi.library import find_library

library = ctypes.CDLL(find_library())
library.MPI_Init(None, None)
library.MPI_Finalize()
try:
    dist.rank()
except dist.DistError as error:
    print(error)
"""
    done = run(script, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("MPI was finalized in this process and cannot start again") == 2


def test_a_second_mpi_library_is_refused(run) -> None:
    script = """
import ctypes, shutil, tempfile
import opwright_dist as dist
from opwright_mpi.library import find_own

with tempfile.TemporaryDirectory() as folder:
    other = shutil.copy(find_own(), folder + "/libmpi.so.40")
    ctypes.CDLL(other)
    try:
        dist.rank()
    except dist.DistError as error:
        print(error)
"""
    done = run(script, 1)
    assert "a process must have only one MPI library, got" in done.stdout, done.stdout + done.stderr
    assert "libmpi.so.40 in addition to" in done.stdout
    assert "or set OPWRIGHT_MPI_LIBRARY to it" in done.stdout


def test_a_library_that_does_not_support_the_launcher_is_refused(run) -> None:
    script = """
import os
os.environ["OPWRIGHT_MPI_RANKS"] = "3"
import opwright_dist as dist
try:
    dist.rank()
except dist.DistError as error:
    print(error)
os._exit(0)
"""
    done = run(script, 1)
    assert "must connect the 3 processes of the launcher through PMI, got 1 from" in done.stdout


def test_a_forked_child_is_refused(run) -> None:
    script = """
child = os.fork()
if child == 0:
    try:
        ow.ops.dist.all_reduce(X)
    except ow.errors.OpwrightError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
ow.ops.dist.all_reduce(X)
"""
    done = run(HEAD + script, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("a forked child is not connected to the other processes") == 2


def test_python_threads_keep_running_while_a_rank_waits(run) -> None:
    script = """
import threading
ticks = []
ended = threading.Event()


def tick():
    while not ended.wait(0.01):
        ticks.append(1)


thread = threading.Thread(target=tick)
thread.start()
if r == 1:
    time.sleep(1)
ow.ops.dist.all_reduce(X)
ended.set()
thread.join()
assert r == 1 or len(ticks) > 10, len(ticks)
print("good")
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("good") == 2, done.stdout + done.stderr


def test_a_collective_within_a_branch_is_refused(run) -> None:
    script = """
from opwright_nn import layers

main = ow.Program()
with ow.program_guard(main, ow.Program()):
    block = main.global_block()
    x = block.create_var("x", shape=[8], dtype="float32")
    flag = block.create_var("flag", shape=[1], dtype="bool")
    out = layers.cond(flag, lambda: ow.ops.dist.all_reduce(x), lambda: x * 1.0)
run = ow.Network(block).compile(feed=["x", "flag"], fetch=[out])
try:
    run(x=X, flag=np.array([r == 0]))
except ow.errors.ProgramError as error:
    print(error)
print("ends")
"""
    done = run(HEAD + script, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("dist.all_reduce: a collective must be outside loops") == 2
    assert done.stdout.count("] ends\n") == 2
