"""Activation functions: relu, sigmoid, softmax and so on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import opwright as ow
from opwright_nn import checks, operators
from opwright_nn.layers.layer import begin


def relu(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``max(x, 0)``."""
    return _append("relu", x, name)


def leaky_relu(x: ow.Variable, alpha: float = 0.01, name: str | None = None) -> ow.Variable:
    """Append ``x where x > 0, otherwise alpha * x``."""
    return _append("leaky_relu", x, name, {"alpha": alpha})


def elu(x: ow.Variable, alpha: float = 1.0, name: str | None = None) -> ow.Variable:
    """Append ``x where x > 0, otherwise alpha * (exp(x) - 1)``."""
    return _append("elu", x, name, {"alpha": alpha})


def gelu(x: ow.Variable, approximate: str = "none", name: str | None = None) -> ow.Variable:
    """Append ``x * P(X <= x)``, X standard normal; `approximate` is "none" or "tanh"."""
    return _append("gelu", x, name, {"approximate": approximate})


def silu(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``x * sigmoid(x)``."""
    return _append("silu", x, name)


def softplus(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``log(1 + exp(x))``."""
    return _append("softplus", x, name)


def sigmoid(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``1 / (1 + exp(-x))``."""
    return _append("sigmoid", x, name)


def tanh(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``tanh(x)``."""
    return _append("tanh", x, name)


def softmax(x: ow.Variable, axis: int = -1, name: str | None = None) -> ow.Variable:
    """Append ``exp(x) / sum(exp(x))`` over `axis`."""
    return _append("softmax", x, name, {"axis": axis})


def log_softmax(x: ow.Variable, axis: int = -1, name: str | None = None) -> ow.Variable:
    """Append ``log(softmax(x))`` over `axis`."""
    return _append("log_softmax", x, name, {"axis": axis})


@ow.transaction()
def _append(
    op_type: str, x: ow.Variable, name: str | None, attrs: Mapping[str, Any] | None = None
) -> ow.Variable:
    checks.check_variable(op_type, "x", x)
    layer = begin(op_type, name)
    return operators.append(layer.block, op_type, {"x": x}, attrs, name=layer.out)
