"""Activation functions: relu, sigmoid, softmax and so on."""

from __future__ import annotations

import opwright as ow
from opwright_nn.layers.layer import append_layer


def relu(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``max(x, 0)``."""
    return append_layer("relu", {"x": x}, {}, name)


def leaky_relu(x: ow.Variable, alpha: float = 0.01, name: str | None = None) -> ow.Variable:
    """Append ``x where x > 0, otherwise alpha * x``."""
    return append_layer("leaky_relu", {"x": x}, {"alpha": alpha}, name)


def elu(x: ow.Variable, alpha: float = 1.0, name: str | None = None) -> ow.Variable:
    """Append ``x where x > 0, otherwise alpha * (exp(x) - 1)``."""
    return append_layer("elu", {"x": x}, {"alpha": alpha}, name)


def gelu(x: ow.Variable, approximate: str = "none", name: str | None = None) -> ow.Variable:
    """Append ``x * P(X <= x)``, X standard normal; `approximate` is "none" or "tanh"."""
    return append_layer("gelu", {"x": x}, {"approximate": approximate}, name)


def silu(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``x * sigmoid(x)``."""
    return append_layer("silu", {"x": x}, {}, name)


def softplus(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``log(1 + exp(x))``."""
    return append_layer("softplus", {"x": x}, {}, name)


def sigmoid(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``1 / (1 + exp(-x))``."""
    return append_layer("sigmoid", {"x": x}, {}, name)


def tanh(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``tanh(x)``."""
    return append_layer("tanh", {"x": x}, {}, name)


def softmax(x: ow.Variable, axis: int = -1, name: str | None = None) -> ow.Variable:
    """Append ``exp(x) / sum(exp(x))`` over `axis`."""
    return append_layer("softmax", {"x": x}, {"axis": axis}, name)


def log_softmax(x: ow.Variable, axis: int = -1, name: str | None = None) -> ow.Variable:
    """Append ``log(softmax(x))`` over `axis`."""
    return append_layer("log_softmax", {"x": x}, {"axis": axis}, name)
