"""Rows of the optimizers of ONNX's domain for training."""

from __future__ import annotations

from typing import Any

from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value

ROWS = Rows()

_DOMAIN = "ai.onnx.preview.training"


def _regularized(t: Translator, n: Node, groups: list[tuple[Value, ...]]) -> list[Any]:
    """Add the gradient of the squared tensor to each gradient."""
    share = n.attr("norm_coefficient", 0.0)
    if not share:
        return groups
    return [(x, t.op("add", grad, t.op("multiply", x, share)), *rest) for x, grad, *rest in groups]


def _groups(inputs: tuple[Value, ...], count: int) -> list[tuple[Value, ...]]:
    """Return what belongs to each tensor: it, its gradient, its states."""
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
