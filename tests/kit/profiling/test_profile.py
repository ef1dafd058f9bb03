"""``network.profile`` has a row for each step, and leaves the scope unchanged."""

from __future__ import annotations

import gc
import json
import time

import numpy as np
import pytest

import opwright as ow
from opwright import Context
from opwright.errors import FeedError, KernelError, ProgramError
from opwright.plugin import Package

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def _linear():
    """Compute ``y = sigmoid(x @ w)`` with a persistable w, then halve w."""
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1, 3])
    block.create_var("w", [3, 2], persistable=True)
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "xw"})
    block.append_op("sigmoid", {"x": "xw"}, {"out": "y"})
    block.append_op("scale", {"x": "w"}, {"out": "w"}, {"scale": 0.5})
    scope = ow.Scope()
    scope.var("w").set(np.ones((3, 2), np.float32))
    return ow.Network(block), scope


def _compiled(**options):
    network, scope = _linear()
    return network, network.compile(["x"], ["y"], scope=scope, **options), scope


def test_rows_are_the_steps_in_order_with_their_operators_kernels_and_shapes():
    network, call, _ = _compiled(passes=[])
    profile = network.profile({"x": X}, n=5)
    assert [row.op_type for row in profile.rows][:2] == ["matmul", "sigmoid"]
    first = profile.rows[0]
    assert (first.step, first.operators, first.block, first.depth, first.calls) == (
        0,
        (0,),
        0,
        0,
        1,
    )
    assert (first.device, first.dtype, first.is_python) == ("cpu", "float32", False)
    assert first.kernel == f"cpu/{ow.explain('matmul', dtype='float32').chosen.library}"
    assert first.package.startswith("opwright-cpu ")
    assert first.inputs == (("x", "float32", (4, 3)), ("w", "float32", (3, 2)))
    assert first.outputs == (("xw", "float32", (4, 2)),)
    assert first.output_bytes == 4 * 2 * 4
    assert call.profile({"x": X}, n=1).rows[1].op_type == "sigmoid"


def test_a_fused_step_names_all_of_its_operators():
    network, call, _ = _compiled()
    profile = network.profile({"x": X}, n=1)
    assert profile.rows[0].operators == (0, 1)
    assert call(x=X)[0].shape == (4, 2)


def test_times_in_a_profile_are_consistent():
    network, _call, _ = _compiled()
    profile = network.profile({"x": X}, n=5)
    assert profile.n_runs == 5
    assert all(0 <= row.min_s <= row.median_s for row in profile.rows)
    assert sum(row.share for row in profile.rows) == pytest.approx(1)
    assert profile.total_s == pytest.approx(sum(row.median_s for row in profile.rows))
    assert profile.overhead_s == pytest.approx(profile.run_s - profile.total_s)
    assert json.loads(json.dumps(profile.to_json()))["rows"][0]["operators"] == [0, 1]


def test_the_table_has_a_line_for_each_step_and_for_the_sum():
    network, _call, _ = _compiled()
    lines = str(network.profile({"x": X}, n=1)).splitlines()
    assert lines[0] == "profile of 1 runs on cpu, 1 thread"
    assert lines[1].split()[:4] == ["step", "operator", "place", "kernel"]
    assert lines[2].split()[:3] == ["0", "fc", "0+1"]
    assert any(line.startswith("  sum of ") for line in lines)
    assert any(line.startswith("  the plan itself ") for line in lines)


def test_the_scope_is_unchanged():
    network, call, scope = _compiled()
    names = scope.names()
    network.profile({"x": X}, n=3)
    assert scope.names() == names
    np.testing.assert_array_equal(scope.find_var("w").numpy(), np.ones((3, 2)))
    call(x=X)
    np.testing.assert_array_equal(scope.find_var("w").numpy(), np.full((3, 2), 0.5))


def test_profiling_does_not_modify_the_cached_plan():
    network, call, _ = _compiled()
    call(x=X)
    plan = network.plan_for({"x": X}).lowered.plan
    network.profile({"x": X}, n=2)
    assert (plan.instances, network.plan_for({"x": X}).lowered.plan) == (1, plan)


def test_a_plan_created_by_run_is_profiled_on_a_scope():
    network, scope = _linear()
    scope.var("x").set(X)
    network.run(scope)
    before = scope.find_var("w").numpy()
    profile = network.profile(n=2, scope=scope)
    assert [row.operators for row in profile.rows] == [(0,), (1,), (2,)]
    np.testing.assert_array_equal(scope.find_var("w").numpy(), before)
    with pytest.raises(FeedError, match=r"a plan of run takes no feeds, got \['x'\]"):
        network.profile({"x": X}, scope=scope)
    with pytest.raises(LookupError, match="must be set before plan"):
        network.profile(scope=ow.Scope())


@pytest.mark.parametrize("n", [0, -1, 10_001, True, 2.5])
def test_the_number_of_runs_is_checked_first(n):
    network, _call, _ = _compiled()
    with pytest.raises(ProgramError, match=r"an int in \[1, 10000\], got "):
        network.profile({"x": X}, n=n)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        (None, "'x' is missing"),
        ({"y": X}, "unknown feed, got 'y'"),
        ({"x": X[:, :2]}, r"shape must be \(\?, 3\), got \(4, 2\)"),
        ({1: X}, "feeds must be named by strings, got the name 1"),
        ([X], "feeds must be a mapping from names to arrays, got list"),
    ],
)
def test_feeds_are_checked_as_in_a_call(feeds, message):
    network, _call, _ = _compiled()
    with pytest.raises(FeedError, match=message):
        network.profile(feeds)


def test_a_network_without_a_plan_cannot_be_profiled():
    network, _ = _linear()
    with pytest.raises(ProgramError, match="got none; call compile or run first"):
        network.profile()


def test_a_profile_requires_a_compiled_object_that_still_exists():
    network, call, _ = _compiled()
    del call
    gc.collect()
    with pytest.raises(ProgramError, match="none; keep it in a variable"):
        network.profile({"x": X})


def test_a_callable_without_a_network_cannot_be_profiled():
    call = ow._runtime.CompiledNetwork(ow.Scope(), [], lambda arrays: None)
    with pytest.raises(ProgramError, match=r"a result of Network\.compile"):
        call.profile()


def _with_kernel(function):
    """The standard context, plus a Python kernel for sigmoid with the highest priority."""
    context = Context.discover()
    context.kernels.add(
        "sigmoid",
        device="cpu",
        dtypes=["float32"],
        kernel=function,
        library="test",
        package=Package("test", "opwright-test", "1"),
        priority=99,
    )
    return context


def test_a_python_kernel_is_marked_and_has_its_own_time():
    def slow(x, out):
        time.sleep(0.1)  # longer than delays of other steps on a busy machine
        out[:] = x

    with ow.context_guard(_with_kernel(slow)):
        network, _call, _ = _compiled(passes=[])
        rows = network.profile({"x": X}, n=5).rows
    assert [row.is_python for row in rows[:2]] == [False, True]
    assert max(rows, key=lambda row: row.median_s) is rows[1]


def test_the_error_names_a_kernel_that_fails_and_the_scope_is_unchanged():
    calls = []

    def failing(x, out):
        calls.append(1)
        if len(calls) == 6:  # in a timed run, after the warm-up
            raise ValueError("full moon")
        out[:] = x

    with ow.context_guard(_with_kernel(failing)):
        network, call, scope = _compiled(passes=[])
        with pytest.raises(KernelError, match=r"operator 1 failed .* full moon"):
            network.profile({"x": X}, n=5)
        np.testing.assert_array_equal(scope.find_var("w").numpy(), np.ones((3, 2)))
        assert call(x=X)[0].shape == (4, 2)


def test_only_the_branch_that_ran_has_rows():
    program = ow.Program()
    block = program.global_block()
    block.create_var("p", [1], "bool")
    block.create_var("x", [-1])
    bodies = []
    for op_type in ("square", "negative"):
        bodies.append(program.create_block())
        bodies[-1].append_op(op_type, {"x": "x"}, {"out": "y"})
        program.rollback()
    attrs = {"true_block": bodies[0], "false_block": bodies[1]}
    attrs |= {"true_outputs": ["y"], "false_outputs": ["y"]}
    block.append_op("cond", {"condition": "p"}, {"out": ["out"]}, attrs)
    network = ow.Network(block)
    call = network.compile(["p", "x"], ["out"])
    for taken, op_type, idx in ((True, "square", 1), (False, "negative", 2)):
        rows = network.profile({"p": np.array([taken]), "x": X[0]}, n=2).rows
        shown = [(row.op_type, row.depth, row.block, row.operators) for row in rows]
        assert shown[:2] == [("cond", 0, 0, (0,)), (op_type, 1, idx, (0,))]
    assert call is not None


def test_operators_of_a_loop_body_are_counted_in_every_iteration_and_belong_to_the_loop(toy):
    with ow.context_guard(toy.context_with_loop()):
        program = ow.Program()
        block = program.global_block()
        for name, dtype in (("go", "bool"), ("n", "float32"), ("limit", "float32")):
            block.create_var(name, [1], dtype)
        body = program.create_block()
        body.create_var("i", [1])
        body.append_op("scale", {"x": "i"}, {"out": "i2"}, {"scale": 1.0, "bias": 1.0})
        body.append_op("less", {"x": "i2", "y": "limit"}, {"out": "again"})
        program.rollback()
        names = {"body_inputs": ["i"], "body_outputs": ["i2"], "body_condition": "again"}
        inputs = {"condition": "go", "state": ["n"]}
        block.append_op("test.repeat", inputs, {"out": ["turns"]}, {"body": body, **names})
        network = ow.Network(block)
        call = network.compile(["go", "n", "limit"], ["turns"])
        feeds = {"n": np.zeros(1, np.float32), "limit": np.full(1, 5, np.float32)}
        profile = call.profile({"go": np.array([True]), **feeds}, n=3)
    inner = [row for row in profile.rows if row.depth == 1]
    (loop,) = [row for row in profile.rows if row.op_type == "test.repeat"]
    assert [(row.op_type, row.calls, row.block) for row in inner] == [
        ("scale", 5, 1),
        ("less", 5, 1),
    ]
    assert loop.calls == 1
    assert sum(row.share for row in profile.rows if row.depth == 0) == pytest.approx(1)


def test_rows_contain_the_actual_shape_if_it_depends_on_values():
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1])
    block.create_var("total", [1], persistable=True)
    block.append_op("nonzero", {"x": "x"}, {"out": "index"})
    block.append_op("cast", {"x": "index"}, {"out": "as_float"}, {"dtype": "float32"})
    block.append_op("scale", {"x": "total"}, {"out": "total"}, {"scale": 2.0})
    scope = ow.Scope()
    scope.var("total").set(np.ones(1, np.float32))
    network = ow.Network(block)
    call = network.compile(["x"], ["as_float"], scope=scope)
    rows = network.profile({"x": np.array([0, 1, 1], np.float32)}, n=2).rows
    nonzero, cast = (next(r for r in rows if r.op_type == name) for name in ("nonzero", "cast"))
    assert (nonzero.operators, nonzero.outputs[0][2], nonzero.output_bytes) == ((0,), (1, 2), 16)
    assert (cast.operators, cast.outputs[0][2]) == ((1,), (1, 2))
    np.testing.assert_array_equal(scope.find_var("total").numpy(), [1])
    assert len(call(x=np.ones(2, np.float32))) == 1


def test_rows_with_varying_shapes_are_weighted_by_their_runs():
    program = ow.Program(seed=7)
    block = program.global_block()
    block.create_var("x", [-1])
    block.append_op("dropout", {"x": "x"}, {"out": "y"}, {"probability": 0.5, "training": True})
    block.append_op("nonzero", {"x": "y"}, {"out": "index"})
    block.append_op("cast", {"x": "index"}, {"out": "as_float"}, {"dtype": "float32"})
    network = ow.Network(block)
    call = network.compile(["x"], ["as_float"], scope=ow.Scope())
    profile = call.profile({"x": np.ones(256, np.float32)}, n=8)
    casts = [row for row in profile.rows if row.op_type == "cast"]
    assert len({row.outputs for row in casts}) == len(casts) > 1
    assert sum(row.runs for row in casts) == 8
    assert sum(row.share for row in profile.rows) == pytest.approx(1)
    expected = sum(row.median_s * row.runs / 8 for row in profile.rows)
    assert profile.total_s == pytest.approx(expected)


def test_steps_added_by_lowering_do_not_belong_to_an_operator():
    program = ow.Program(seed=7)
    block = program.global_block()
    block.create_var("x", [-1])
    block.append_op("dropout", {"x": "x"}, {"out": "y"}, {"probability": 0.5, "training": True})
    scope = ow.Scope()
    network = ow.Network(block)
    call = network.compile(["x"], ["y"], scope=scope)
    call(x=X[0])
    rows = network.profile({"x": X[0]}, n=2).rows
    assert rows[0].operators == (0,)
    assert {row.operators for row in rows[1:]} == {()}
    assert scope.find_var("@step").numpy().tolist() == [1]
