"""cond: only the selected block runs, also in gradients, and blocks read outer variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import DtypeError, ShapeError


def branching_program() -> tuple[Any, Any]:
    """Return a program of ``y = p ? x * w : log(x)``, and y."""
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1, 3], "float64", is_data=True)
    block.create_var("p", [1], "bool", is_data=True)
    block.create_parameter("w", [3], "float64")
    true = program.create_block()
    true.append_op("multiply", {"x": "x", "y": "w"}, {"out": "product"})
    program.rollback()
    false = program.create_block()
    false.append_op("log", {"x": "x"}, {"out": "logarithm"})
    program.rollback()
    attrs = {
        "true_block": true,
        "false_block": false,
        "true_outputs": ["product"],
        "false_outputs": ["logarithm"],
    }
    op = block.append_op("cond", {"condition": "p"}, {"out": ["y"]}, attrs)
    return program, op


def run(program: Any, fetch: list[str], **feeds: Any) -> list[Any]:
    scope = ow.Scope()
    scope.var("w").set(np.array([1.0, 2.0, 3.0]))
    network = ow.Network(program.global_block())
    step = network.compile(feed=list(feeds), fetch=fetch, scope=scope)
    return step(**feeds)


X = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 4.0]])
YES, NO = np.array([True]), np.array([False])


def test_cond_finds_the_outer_variables_that_its_blocks_read() -> None:
    _, op = branching_program()
    assert op.input("x") == ("x", "w")


def test_cond_infers_the_shape_of_both_blocks() -> None:
    program, _ = branching_program()
    assert program.global_block().var("y").shape == (-1, 3)
    assert program.global_block().var("y").dtype == "float64"


def test_cond_returns_the_results_of_the_selected_block() -> None:
    program, _ = branching_program()
    (product,) = run(program, ["y"], x=X, p=YES)
    np.testing.assert_array_equal(product, X * [1.0, 2.0, 3.0])
    (logarithm,) = run(program, ["y"], x=np.abs(X), p=NO)
    np.testing.assert_allclose(logarithm, np.log(np.abs(X)), rtol=1e-15)


def test_the_block_that_is_not_selected_does_not_run(reference_kernels: ow.Context) -> None:
    program, _ = branching_program()
    with np.errstate(all="raise"):  # the logarithm of a negative number would raise
        run(program, ["y"], x=X, p=YES)


@pytest.mark.parametrize("chosen", [YES, NO])
def test_the_gradient_is_computed_from_the_selected_block(chosen: Any) -> None:
    program, _ = branching_program()
    block = program.global_block()
    total = block.append_op("sum", {"x": "y"}).output("out")[0]
    pairs = ow.append_backward(block.var(total), parameters=["x", "w"])
    x = np.abs(X)
    x_grad, w_grad = run(program, [gradient.name for _, gradient in pairs], x=x, p=chosen)
    expected = (np.tile([1.0, 2.0, 3.0], (2, 1)), x.sum(0)) if chosen[0] else (1 / x, np.zeros(3))
    np.testing.assert_allclose(x_grad, expected[0])
    np.testing.assert_allclose(w_grad, expected[1])


def append_cond(dtype: str, shape: list[int], names: list[str], condition: Any = (1,)) -> None:
    """Append a cond: one block returns ones in float32 [2], the other in `dtype` and `shape`."""
    program = ow.Program()
    block = program.global_block()
    block.create_var("p", condition, "bool", is_data=True)
    bodies = []
    for name, kind, dims in (("a", "float32", [2]), ("b", dtype, shape)):
        body = program.create_block()
        body.append_op("fill", {}, {"out": name}, {"shape": dims, "dtype": kind, "value": 1.0})
        program.rollback()
        bodies.append(body)
    attrs = dict(zip(("true_block", "false_block"), bodies, strict=True))
    outputs = {"true_outputs": ["a"], "false_outputs": ["b"]}
    block.append_op("cond", {"condition": "p"}, {"out": names}, {**attrs, **outputs})


def test_cond_refuses_blocks_that_differ() -> None:
    with pytest.raises(
        ShapeError, match=r"cond: both blocks must return the same shape and dtype, got f"
    ):
        append_cond("float32", [3], ["y"])
    with pytest.raises(ShapeError, match=r"got float32\[2\] and float64\[2\]"):
        append_cond("float64", [2], ["y"])


def test_cond_refuses_a_different_number_of_outputs() -> None:
    with pytest.raises(ShapeError, match="cond: out must have as many variables as .* got 2 for 1"):
        append_cond("float32", [2], ["y", "z"])


def test_cond_refuses_a_condition_with_several_elements() -> None:
    with pytest.raises(ShapeError, match=r"cond: condition must have one element, got bool\[2\]"):
        append_cond("float32", [2], ["y"], [2])


def test_cond_refuses_a_condition_that_is_not_a_bool() -> None:
    program, _ = branching_program()
    block = program.global_block()
    attrs = block.ops.pop().attrs
    with pytest.raises(DtypeError, match="cond: condition must be bool, got float64"):
        block.append_op("cond", {"condition": "w"}, {"out": ["z"]}, attrs)


def picking_program() -> Any:
    """Return a program of ``y = p ? x * (sum of w where x is not 0) : x``, and a loss."""
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1], "float64", is_data=True)
    block.create_var("p", [1], "bool", is_data=True)
    block.create_parameter("w", [3], "float64")
    true = program.create_block()
    true.append_op("nonzero", {"x": "x"}, {"out": "where"})
    true.append_op("gather", {"x": "w", "index": "where"}, {"out": "picked"})
    true.append_op("sum", {"x": "picked"}, {"out": "total"})
    true.append_op("multiply", {"x": "x", "y": "total"}, {"out": "product"})
    program.rollback()
    false = program.create_block()
    program.rollback()
    attrs = {
        "true_block": true,
        "false_block": false,
        "true_outputs": ["product"],
        "false_outputs": ["x"],
    }
    block.append_op("cond", {"condition": "p"}, {"out": ["y"]}, attrs)
    block.append_op("sum", {"x": "y"}, {"out": "loss"})
    return program


@pytest.mark.parametrize("x", [[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
def test_shapes_within_a_branch_can_depend_on_values(x: list[float]) -> None:
    program = picking_program()
    ((_, gradient),) = ow.append_backward(program.global_block().var("loss"), ["w"])
    values, w = np.array(x), np.array([1.0, 2.0, 3.0])
    for flag in (YES, NO, YES):
        y, loss, w_grad = run(program, ["y", "loss", gradient.name], x=values, p=flag)
        wanted = values * (w[values != 0].sum() if flag else 1.0)
        np.testing.assert_allclose(y, wanted)
        np.testing.assert_allclose(loss, wanted.sum())
        np.testing.assert_allclose(w_grad, (values != 0) * values.sum() * bool(flag))


def test_a_branch_is_planned_once_for_each_shape() -> None:
    program = picking_program()
    scope = ow.Scope()
    scope.var("w").set(np.array([1.0, 2.0, 3.0]))
    step = ow.Network(program.global_block()).compile(["x", "p"], ["y"], scope=scope)
    for _ in range(3):
        for x in ([1.0, 0.0, 2.0], [0.0, 5.0, 0.0]):
            values = np.array(x)
            (y,) = step(x=values, p=YES)
            wanted = values * np.array([1.0, 2.0, 3.0])[values != 0].sum()
            np.testing.assert_allclose(y, wanted)
