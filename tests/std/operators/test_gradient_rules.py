"""Gradient rules of standard operators beyond their cases: unknown ranks, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import GradientError


def fc_program(rank_is_known: bool, kept: int = 1) -> Any:
    """Return a program with the gradients of ``sum(tanh(fc(x)) * weight_of_loss)``."""
    program = ow.Program()
    block = program.global_block()
    shape = [2] * (kept + 1) + [3] if rank_is_known else None
    block.create_var("x", shape, "float64", is_data=True)
    block.create_parameter("w", [6, 4] if rank_is_known else None, "float64")
    block.create_parameter("b", [4] if rank_is_known else None, "float64")
    attrs = {"activation": "tanh", "num_flatten_dims": kept}
    out = block.append_op("fc", {"x": "x", "weight": "w", "bias": "b"}, {}, attrs).output("out")
    squares = block.append_op("square", {"x": out}).output("out")
    total = block.append_op("sum", {"x": squares}).output("out")[0]
    pairs = ow.append_backward(block.var(total), parameters=["x", "w", "b"])
    return program, [gradient.name for _, gradient in pairs]


def gradients(rank_is_known: bool, kept: int) -> list[Any]:
    program, names = fc_program(rank_is_known, kept)
    rng = np.random.default_rng(0)
    scope = ow.Scope()
    scope.var("w").set(rng.standard_normal((6, 4)))
    scope.var("b").set(rng.standard_normal(4))
    network = ow.Network(program.global_block())
    step = network.compile(feed=["x"], fetch=names, scope=scope)
    return step(x=rng.standard_normal([2] * (kept + 1) + [3]))


@pytest.mark.parametrize("kept", [1, 2])
def test_fc_can_be_differentiated_before_its_shapes_are_known(kept: int) -> None:
    for known, unknown in zip(gradients(True, kept), gradients(False, kept), strict=True):
        assert known.shape == unknown.shape
        np.testing.assert_allclose(known, unknown, rtol=1e-13)


def test_the_fc_gradient_of_a_matrix_appends_only_two_products() -> None:
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1, 6], "float32", is_data=True)
    block.create_parameter("w", [6, 4])
    out = block.append_op("fc", {"x": "x", "weight": "w"}).output("out")[0]
    ow.append_backward(block.var(out), parameters=["x", "w"])
    assert [op.type for op in block.ops] == ["fc", "fill_like", "matmul", "matmul"]


def test_matmul_gradient_requires_the_number_of_dimensions() -> None:
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", None, "float32", is_data=True)
    block.create_parameter("w", [6, 4])
    out = block.append_op("matmul", {"x": "x", "y": "w"}).output("out")[0]
    with pytest.raises(GradientError, match="number of dimensions of x, got 'x' without a shape"):
        ow.append_backward(block.var(out))


def batch_norm_program(stop_gradient: bool) -> Any:
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1, 3], "float32", is_data=True)
    for name in ("scale", "bias"):
        block.create_parameter(name, [3])
    for name in ("mean", "variance"):
        block.create_var(name, [3], persistable=True, stop_gradient=stop_gradient)
    inputs = {name: name for name in ("x", "scale", "bias", "mean", "variance")}
    block.append_op("batch_norm", inputs, {"out": "y"}, {"training": True})
    return block


def test_running_statistics_have_no_gradient() -> None:
    block = batch_norm_program(stop_gradient=True)
    pairs = ow.append_backward(block.var("y"))
    assert [variable.name for variable, _ in pairs] == ["scale", "bias"]
    block = batch_norm_program(stop_gradient=False)
    with pytest.raises(GradientError, match="batch_norm: input 'mean' has no gradient"):
        ow.append_backward(block.var("y"), parameters=["mean"])


def test_loss_refuses_a_gradient_of_soft_labels() -> None:
    program = ow.Program()
    block = program.global_block()
    for name in ("logits", "label"):
        block.create_var(name, [2, 3], "float64", is_data=True)
    inputs = {"logits": "logits", "label": "label"}
    op = block.append_op("softmax_with_cross_entropy", inputs, {}, {"soft_label": True})
    with pytest.raises(GradientError, match="input 'label' has no gradient"):
        ow.append_backward(block.var(op.output("out")[0]), parameters=["logits", "label"])
