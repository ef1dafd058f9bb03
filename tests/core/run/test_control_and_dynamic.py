"""Plans support sub-blocks, data-dependent shapes, and random operators."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelError, ProgramError, ShapeError, SlotError


def _branching(true_op="square", false_op="negative", false_attrs=None):
    program = ow.Program()
    block = program.global_block()
    block.create_var("p", [1], "bool")
    block.create_var("x", [-1])
    blocks = []
    for op_type, attrs in ((true_op, None), (false_op, false_attrs)):
        body = program.create_block()
        body.append_op(op_type, {"x": "x"}, {"out": "y"}, attrs)
        program.rollback()
        blocks.append(body)
    attrs = {
        "true_block": blocks[0],
        "false_block": blocks[1],
        "true_outputs": ["y"],
        "false_outputs": ["y"],
    }
    block.append_op("cond", {"condition": "p"}, {"out": ["out"]}, attrs)
    block.append_op("add", {"x": "out", "y": "x"}, {"out": "z"})
    return program


def test_the_condition_selects_the_branch_that_runs():
    call = ow.Network(_branching().global_block()).compile(feed=["p", "x"], fetch=["out", "z"])
    x = np.array([1, 2, 3], np.float32)
    for p, out in ((True, x * x), (False, -x), (True, x * x)):
        got, z = call(p=np.array([p]), x=x)
        np.testing.assert_allclose(got, out)
        np.testing.assert_allclose(z, out + x)


def test_network_run_supports_branches():
    scope = ow.Scope()
    scope.var("p").set(np.array([False]))
    scope.var("x").set(np.array([4.0], np.float32))
    ow.Network(_branching().global_block()).run(scope)
    np.testing.assert_allclose(scope.find_var("z").numpy(), [0])
    assert scope.find_var("y") is None


def test_the_error_for_branches_of_different_shapes_names_both():
    with pytest.raises(ShapeError, match="cond"):
        _branching(false_op="sum")


def test_the_error_names_a_failing_operator_in_a_branch():
    program = ow.Program()
    block = program.global_block()
    block.create_var("p", [1], "bool")
    block.create_var("ids", [-1], "int64")
    bodies = []
    for depth in (3, 3):
        body = program.create_block()
        body.append_op("one_hot", {"x": "ids"}, {"out": "y"}, {"depth": depth})
        program.rollback()
        bodies.append(body)
    names = {"true_outputs": ["y"], "false_outputs": ["y"]}
    attrs = {"true_block": bodies[0], "false_block": bodies[1], **names}
    block.append_op("cond", {"condition": "p"}, {"out": ["out"]}, attrs)
    call = ow.Network(block).compile(feed=["p", "ids"], fetch=["out"])
    with pytest.raises(KernelError, match=r"one_hot\[cpu\]: operator 0 failed"):
        call(p=np.array([True]), ids=np.array([5]))
    assert call(p=np.array([True]), ids=np.array([2]))[0].shape == (1, 3)


def _positions():
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1])
    block.create_var("scale", [1], persistable=True)
    block.append_op("multiply", {"x": "x", "y": "scale"}, {"out": "scaled"})
    block.append_op("nonzero", {"x": "scaled"}, {"out": "index"})
    block.append_op("cast", {"x": "index"}, {"out": "as_float"}, {"dtype": "float32"})
    block.append_op("multiply", {"x": "as_float", "y": "scale"}, {"out": "result"})
    scope = ow.Scope()
    scope.var("scale").set(np.array([2.0], np.float32))
    return program, scope


def test_operators_after_a_dynamic_operator_are_lowered_for_its_actual_shape():
    program, scope = _positions()
    network = ow.Network(program.global_block())
    call = network.compile(feed=["x"], fetch=["result", "scaled", "index"], scope=scope)
    for numbers in ([0, 1, 0, 2], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 2]):
        x = np.array(numbers, np.float32)
        result, scaled, index = call(x=x)
        np.testing.assert_array_equal(index, np.argwhere(x).T)
        np.testing.assert_allclose(result, 2.0 * np.argwhere(x).T)
        np.testing.assert_allclose(scaled, 2 * x)


def test_run_writes_results_with_dynamic_shapes_to_the_scope():
    program, scope = _positions()
    scope.var("x").set(np.array([0, 5, 6], np.float32))
    network = ow.Network(program.global_block())
    network.run(scope)
    np.testing.assert_array_equal(scope.find_var("index").numpy(), [[1, 2]])
    np.testing.assert_allclose(scope.find_var("result").numpy(), [[2, 4]])
    scope.var("x").set(np.array([7, 0, 0], np.float32))
    network.run(scope)
    np.testing.assert_array_equal(scope.find_var("index").numpy(), [[0]])


def test_a_dynamic_operator_can_follow_another():
    ops = [
        ow.Operator("nonzero", x="x", out="first"),
        ow.Operator("nonzero", x="first", out="second"),
    ]
    call = ow.Network(ops).compile(feed=["x"], fetch=["second", "first"])
    x = np.array([3, 0, 4], np.int64)
    second, first = call(x=x)
    np.testing.assert_array_equal(first, [[0, 2]])
    np.testing.assert_array_equal(second, np.argwhere(first).T)


def test_a_dynamic_operator_inside_a_branch_is_refused():
    program = ow.Program()
    block = program.global_block()
    block.create_var("p", [1], "bool")
    block.create_var("x", [-1], "int64")
    attrs = {"true_outputs": ["y"], "false_outputs": ["y"]}
    for name in ("true_block", "false_block"):
        attrs[name] = program.create_block()
        attrs[name].append_op("nonzero", {"x": "x"}, {"out": "y"})
        program.rollback()
    block.append_op("cond", {"condition": "p"}, {"out": ["out"]}, attrs)
    call = ow.Network(block).compile(feed=["p", "x"], fetch=["out"])
    with pytest.raises(ProgramError, match="nonzero: its output shape depends on values"):
        call(p=np.array([True]), x=np.ones(3, np.int64))


def _dropout(seed=7):
    program = ow.Program(seed=seed)
    block = program.global_block()
    block.create_var("x", [-1])
    block.append_op("dropout", {"x": "x"}, {"out": "y"}, {"probability": 0.5, "training": True})
    return program


def test_random_numbers_differ_between_steps_but_not_between_new_scopes():
    program = _dropout()
    x = np.ones(256, np.float32)

    def three():
        scope = ow.Scope()
        call = ow.Network(program.global_block()).compile(feed=["x"], fetch=["y"], scope=scope)
        runs = [call(x=x)[0] for _ in range(3)]
        assert scope.find_var("@step").numpy().tolist() == [3]
        return runs

    first, second = three(), three()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[1], first[2])


def test_different_seeds_draw_different_numbers():
    x = np.ones(256, np.float32)
    results = []
    for seed in (1, 2):
        block = _dropout(seed).global_block()
        results.append(ow.Network(block).compile(["x"], ["y"], scope=ow.Scope())(x=x)[0])
    assert not np.array_equal(*results)


def test_a_loop_carries_its_values_until_the_condition_fails(toy):
    with ow.context_guard(toy.context_with_loop(limit=100)):
        program = ow.Program()
        block = program.global_block()
        block.create_var("go", [1], "bool")
        block.create_var("n", [1])
        block.create_var("x", [-1])
        block.create_var("limit", [1])
        body = program.create_block()
        body.create_var("i", [1])
        body.create_var("v", [-1])
        body.append_op("add", {"x": "v", "y": "v"}, {"out": "v2"})
        body.append_op("scale", {"x": "i"}, {"out": "i2"}, {"scale": 1.0, "bias": 1.0})
        body.append_op("less", {"x": "i2", "y": "limit"}, {"out": "again"})
        program.rollback()
        attrs = {
            "body": body,
            "body_inputs": ["i", "v"],
            "body_outputs": ["i2", "v2"],
            "body_condition": "again",
        }
        inputs = {"condition": "go", "state": ["n", "x"]}
        block.append_op("test.repeat", inputs, {"out": ["turns", "powers"]}, attrs)
        call = ow.Network(block).compile(["go", "n", "x", "limit"], ["turns", "powers"])
        x = np.array([1, 3], np.float32)
        feeds = {"n": np.zeros(1, np.float32), "x": x}
        limit = np.array([5], np.float32)
        turns, powers = call(go=np.array([True]), limit=limit, **feeds)
        np.testing.assert_allclose(turns, [5])
        np.testing.assert_allclose(powers, x * 32)
        turns, powers = call(go=np.array([False]), limit=limit, **feeds)
        np.testing.assert_allclose(turns, [0])
        np.testing.assert_allclose(powers, x)
        with pytest.raises(KernelError, match="100"):
            call(go=np.array([True]), limit=np.array([1e6], np.float32), **feeds)


@pytest.mark.parametrize("names", [["out", "more"], ["out"] * 3])
def test_a_loaded_cond_with_a_wrong_number_of_outputs_raises(names):
    message = _branching().to_proto()
    block = message.blocks[0]
    more = block.vars.add()
    more.CopyFrom(next(var for var in block.vars if var.name == "out"))
    more.name = "more"
    (slot,) = (slot for slot in block.ops[0].outputs if slot.slot == "out")
    slot.names[:] = names
    read = ow.Program.from_proto(message)
    with pytest.raises(
        SlotError,
        match=f"cond: out must have one variable for each of true_outputs, got {len(names)} for 1",
    ):
        ow.Network(read.global_block()).compile(feed=["p", "x"], fetch=["z"])(
            p=np.array([True]), x=np.ones(3, np.float32)
        )
