"""Rows of the optimizers and the Gradient operator in ONNX's training domain."""

from __future__ import annotations

from typing import Any

import opwright as ow
from opwright_onnx.errors import ModelError, UnsupportedError
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value
from opwright_onnx.translate.walking import rename

ROWS = Rows()

_DOMAIN = "ai.onnx.preview.training"


def _regularized(t: Translator, n: Node, groups: list[tuple[Value, ...]]) -> list[Any]:
    """Add the gradient of the L2 penalty to each gradient."""
    share = n.attr("norm_coefficient", 0.0)
    if not share:
        return groups
    return [(x, t.op("add", grad, t.op("multiply", x, share)), *rest) for x, grad, *rest in groups]


def _groups(inputs: tuple[Value, ...], count: int) -> list[tuple[Value, ...]]:
    """Group the inputs by tensor: the tensor, its gradient and its states."""
    n_tensors = len(inputs) // count
    return [inputs[i::n_tensors] for i in range(n_tensors)]


@ROWS.row(f"{_DOMAIN}::Momentum")
def momentum(t: Translator, n: Node, rate: Value, step: Value, *inputs: Value) -> Any:
    alpha, beta = n.attr("alpha"), n.attr("beta")
    is_first = t.op("equal", t.cast(step, "float32"), 0)
    share = t.op("where", is_first, 1.0, beta)
    rows = []
    for x, grad, velocity in _regularized(t, n, _groups(inputs, 3)):
        fresh = t.op("add", t.op("multiply", velocity, alpha), t.op("multiply", grad, share))
        step_by = fresh
        if n.attr("mode") == "nesterov":
            step_by = t.op("add", grad, t.op("multiply", fresh, alpha))
        rows.append((t.op("subtract", x, t.op("multiply", step_by, rate)), fresh))
    return tuple(value for column in zip(*rows) for value in column)


@ROWS.row(f"{_DOMAIN}::Adagrad")
def adagrad(t: Translator, n: Node, rate: Value, step: Value, *inputs: Value) -> Any:
    slowed = t.op("multiply", t.cast(step, t.dtype(rate)), n.attr("decay_factor", 0.0))
    pace = t.op("divide", rate, t.op("add", slowed, 1))
    rows = []
    for x, grad, squares in _regularized(t, n, _groups(inputs, 3)):
        fresh = t.op("add", squares, t.op("square", grad))
        scaled = t.op(
            "divide",
            t.op("multiply", grad, pace),
            t.op("add", t.op("sqrt", fresh), n.attr("epsilon")),
        )
        rows.append((t.op("subtract", x, scaled), fresh))
    return tuple(value for column in zip(*rows) for value in column)


@ROWS.row(f"{_DOMAIN}::Adam")
def adam(t: Translator, n: Node, rate: Value, step: Value, *inputs: Value) -> Any:
    alpha, beta = n.attr("alpha"), n.attr("beta")
    turn = t.cast(step, "float32")

    def left(share: float) -> Value:
        return t.op("subtract", 1, t.op("power", t.scalar(share, "float32"), turn))

    corrected = t.op("divide", t.op("multiply", rate, t.op("sqrt", left(beta))), left(alpha))
    pace = t.op("where", t.op("greater", turn, 0), corrected, rate)
    rows = []
    for x, grad, first, second in _regularized(t, n, _groups(inputs, 4)):
        mean = t.op("add", t.op("multiply", first, alpha), t.op("multiply", grad, 1 - alpha))
        squares = t.op("multiply", t.op("square", grad), 1 - beta)
        spread = t.op("add", t.op("multiply", second, beta), squares)
        root = t.op("add", t.op("sqrt", spread), n.attr("epsilon"))
        moved = t.op("subtract", x, t.op("divide", t.op("multiply", mean, pace), root))
        shrunk = t.op("multiply", moved, 1 - n.attr("norm_coefficient_post", 0.0))
        rows.append((shrunk, mean, spread))
    return tuple(value for column in zip(*rows) for value in column)


@ROWS.row(f"{_DOMAIN}::Gradient")
def gradient(t: Translator, n: Node, *inputs: Value) -> Any:
    xs, zs = n.attr("xs") or [], n.attr("zs") or []
    if len(inputs) != len(xs) + len(zs):
        raise ModelError(f"the node must have an input for each of xs and zs, got {len(inputs)}")
    for name, value in zip([*xs, *zs], inputs):
        if t.env.get(name) is not value:
            raise UnsupportedError(
                "its inputs must be the tensors that xs and zs name, got a different tensor for "
                f"{name!r}"
            )
    parameters = inputs[: len(xs)]
    target: Value = t.env.get(n.attr("y"))
    for name, value in zip([n.attr("y"), *xs], [target, *parameters]):
        if not isinstance(value, ow.Variable):
            raise UnsupportedError(
                f"{name!r} must depend on an input of the model, or on an initializer that is "
                "loaded with trainable=True"
            )
    before = len(t.block.ops)
    ones = t.variable(t.full(1.0, t.sizes(t.shape_vector(target)), t.dtype(target)))
    stops = [value.stop_gradient for value in parameters]
    try:
        for value in parameters:
            value.stop_gradient = False
        pairs = ow.append_backward([target], list(parameters), grads={target: ones})
    finally:
        for value, stop in zip(parameters, stops):
            value.stop_gradient = stop
    # The seed is renamed, because operators that read a variable with a gradient name count as
    # training operators and are omitted in inference.
    seed = next(op for op in t.block.ops[before:] if ones.name in op.input_names())
    rename(t, before, t.block.var(*seed.output_names()), t.program.free_name("seed"))
    found = {variable.name: grad for variable, grad in pairs}
    return tuple(found[value.name] for value in parameters)
