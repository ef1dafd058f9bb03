"""If a process differs, fails, exits or is absent, the other processes report it and exit."""

from __future__ import annotations

HEAD = """
import os, sys, time
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()
X = np.ones(8, np.float32)


def compiled(*collectives, fetch=("out0",)):
    block = ow.Program().global_block()
    x = block.create_var("x", shape=[8], dtype="float32")
    for i, name in enumerate(collectives):
        block.append_op(f"dist.{name}", inputs={"x": x}, outputs={"out": f"out{i}"})
    network = ow.Network(block)
    return network.compile(feed=["x"], fetch=list(fetch), device="cuda", scope=ow.Scope())


def tell(function, *arguments, **feeds):
    try:
        function(*arguments, **feeds)
        print("no error", flush=True)
    except Exception as error:
        print(error, flush=True)
"""

DIFFERENCE = """
first = compiled("all_reduce")
for _ in range(RUNS):
    first(x=X)
names = ["all_reduce", "broadcast" if r else "all_to_all"]
tell(compiled(*names), x=X)
tell(compiled("all_gather"), x=X)
"""


def test_the_error_for_differing_plans_names_the_first_operator_on_both_ranks(run) -> None:
    done = run(HEAD + DIFFERENCE.replace("RUNS", "1"), 2)
    wanted = "operator 2 of block 0: dist.{}) -> out=out1 float32[8] on rank {}"
    first = wanted.format("all_to_all(x=x, axis=0, group='world'", 0)
    assert done.stdout.count(first) >= 2
    assert done.stdout.count(wanted.format("broadcast(x=x, root=0, group='world'", 1)) >= 2
    assert done.stdout.count("No data was sent") >= 2
    assert done.stdout.count("group 'world' is unusable since a collective failed") == 2


def test_programs_that_differ_before_equal_collectives_are_reported(run) -> None:
    script = """
block = ow.Program().global_block()
x = block.create_var("x", shape=[8], dtype="float32")
out = ow.ops.dist.all_reduce(ow.ops.relu(x) if r == 0 else ow.ops.tanh(x))
tell(ow.Network(block).compile(feed=[x], fetch=[out], device="cuda"), x=X)
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("operator 1 of block 0: relu(x=x)") == 2, done.stdout + done.stderr
    assert done.stdout.count("operator 1 of block 0: tanh(x=x)") == 2


def test_a_recorded_plan_that_differs_from_the_plan_of_another_rank_is_reported(run) -> None:
    script = """
known = compiled("all_reduce")
for _ in range(3):
    known(x=X)
tell(known if r == 0 else compiled("all_gather"), x=X)
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("operator 1 of block 0: dist.all_reduce(x=x, reduce='sum'") == 2
    assert done.stdout.count("-> out=out0 float32[16] on rank 1") == 2


def test_a_graph_is_not_replayed_after_a_failure(run) -> None:
    script = """
known = compiled("all_reduce")
for _ in range(3):
    known(x=X)
tell(compiled("all_gather" if r else "broadcast"), x=X)
tell(known, x=X)
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("cannot be replayed any more since an operator failed") == 2, (
        done.stdout + done.stderr
    )


def test_differing_fetches_run_the_same_collectives(run) -> None:
    script = """
call = compiled("all_reduce", "all_gather", fetch=["out0", "out1"] if r == 0 else ["out1"])
out = call(x=X * (r + 1))
np.testing.assert_array_equal(out[-1], np.repeat([1, 2], 8))
print("good")
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("good") == 2, done.stdout + done.stderr


def test_an_exception_on_one_rank_terminates_all_ranks(run) -> None:
    script = """
if r == 1:
    raise ValueError("a fault of the user")
compiled("all_reduce")(x=X)
"""
    done = run(HEAD + script, 2)
    assert done.returncode != 0
    assert "a fault of the user" in done.stderr + done.stdout
    assert "opwright-nccl: rank 1 exited with code 1; all processes are terminated" in done.stderr


def test_a_rank_that_exits_early_is_reported(run) -> None:
    script = """
compiled("all_reduce")(x=X)
if r == 1:
    sys.exit(0)
compiled("all_gather")(x=X)
"""
    done = run(HEAD + script, 2)
    assert done.returncode != 0
    assert "rank 1 has exited before this collective" in done.stderr + done.stdout


def test_a_rank_that_does_not_connect_is_reported(run) -> None:
    script = """
if r == 1:
    time.sleep(60)
tell(compiled("all_reduce"), x=X)
tell(compiled("all_reduce"), x=X)
raise SystemExit(1)
"""
    done = run(HEAD + script, 2, deadline=1.0)
    assert "rank 1 did not arrive within 1 s" in done.stdout
    assert "is unusable since a collective failed" in done.stdout


def test_an_absent_rank_is_reported_after_the_deadline(run) -> None:
    script = """
known = compiled("all_reduce")
for _ in range(3):
    known(x=X)
dist.set_deadline(3)
if r == 1:
    time.sleep(60)
tell(known, x=X)
raise SystemExit(1)
"""
    done = run(HEAD + script, 3)
    text = "group 'world': rank 1 did not arrive within 3 s"
    assert done.stdout.count(text) == 2, done.stdout + done.stderr


def test_a_rank_that_is_killed_in_a_collective_is_reported(run) -> None:
    script = """
compiled("all_reduce")(x=X)
if r == 1:
    os.kill(os.getpid(), 9)
compiled("all_gather")(x=X)
"""
    done = run(HEAD + script, 3)
    assert done.returncode == 137
    assert (
        "opwright-nccl: rank 1 was terminated by SIGKILL; all processes are terminated"
        in done.stderr
    )


def test_a_rank_that_continues_after_the_other_ranks_have_exited_is_reported(run) -> None:
    done = run(HEAD + "if r == 1:\n    time.sleep(1000)\n", 2, deadline=1.0)
    assert done.returncode == 1
    assert "opwright-nccl: rank 0 ended, and rank 1 did not within 1 s" in done.stderr


def test_a_process_that_exits_without_a_message_to_the_launcher_counts_as_failed(run) -> None:
    done = run(HEAD + "if r == 1:\n    os._exit(0)\n", 2)
    assert done.returncode == 1
    assert "before it had said goodbye to the others, as by os._exit" in done.stderr


def test_a_gpu_that_two_processes_share_is_refused(run) -> None:
    script = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '0'\n" + HEAD
    done = run(script + "tell(compiled('all_reduce'), x=X)\nraise SystemExit(1)", 2)
    assert "Duplicate GPU detected : rank 0 and rank 1" in done.stdout, done.stdout + done.stderr
    assert "give each process its own GPU" in done.stdout


def test_a_second_gpu_of_a_process_is_refused(run) -> None:
    script = """
emulated.set("devices", 2)
network = ow.Network([ow.Operator("dist.all_reduce", x="x", out="out")])
network.compile(feed=["x"], fetch=["out"], device="cuda:0", scope=ow.Scope())(x=X)
other = network.compile(feed=["x"], fetch=["out"], device="cuda:1", scope=ow.Scope())
tell(other, x=X)
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("must use one GPU per process") == 2, done.stdout + done.stderr


def test_a_forked_child_is_refused(run) -> None:
    script = """
call = compiled("all_reduce")
call(x=X)
child = os.fork()
if child == 0:
    tell(dist.gather, b"")
    tell(compiled("all_reduce"), x=X)
    os._exit(0)
os.waitpid(child, 0)
call(x=X)
"""
    done = run(HEAD + script, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("a forked child is not connected to the other processes") == 4


def test_python_threads_keep_running_while_a_rank_waits(run) -> None:
    script = """
import threading
call = compiled("all_reduce")
for _ in range(3):
    call(x=X)
ticks = []
ended = threading.Event()


def tick():
    while not ended.wait(0.01):
        ticks.append(1)


thread = threading.Thread(target=tick)
thread.start()
if r == 1:
    time.sleep(1)
call(x=X)
ended.set()
thread.join()
assert r == 1 or len(ticks) > 10, len(ticks)
print("good")
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("good") == 2, done.stdout + done.stderr


def test_ids_out_of_range_are_reported_and_later_calls_work(run) -> None:
    script = """
network = ow.Network(
    [ow.Operator("dist.route_rows", ids="ids", rows="r", places="p", counts="c", size=11)]
)
call = network.compile(feed=["ids"], fetch=["r", "c"], device="cuda", scope=ow.Scope())
for _ in range(3):
    call(ids=np.array([3, 4, 3]))
assert network.placement().graph_refusal == "", network.placement()
tell(call, ids=np.array([3, 11 if r else 4, -1 if r else 3]))
print(call(ids=np.array([3, 4, 3]))[1].tolist())
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("dist.route_rows: ids must be in [0, 11)") == 1, done.stdout
    assert done.stdout.count("[1, 1]") == 2, done.stdout + done.stderr


def test_nccl_kernels_refuse_values_on_the_host(run) -> None:
    done = run(HEAD + "tell(ow.ops.dist.all_reduce, X)\n", 2)
    assert done.stdout.count("[cpu, int64]: every kernel refused") == 2, done.stdout + done.stderr
