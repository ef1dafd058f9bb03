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


def selu(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``1.0507 * elu(x, alpha=1.6733)``, which keeps the mean 0 and the variance 1."""
    return append_layer("selu", {"x": x}, {}, name)


def relu6(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``min(max(x, 0), 6)``."""
    return append_layer("relu6", {"x": x}, {}, name)


def hard_sigmoid(
    x: ow.Variable, alpha: float = 0.2, beta: float = 0.5, name: str | None = None
) -> ow.Variable:
    """Append ``min(max(alpha * x + beta, 0), 1)``; PyTorch's `alpha` is 1 / 6."""
    return append_layer("hard_sigmoid", {"x": x}, {"alpha": alpha, "beta": beta}, name)


def hard_swish(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``x * min(max(x + 3, 0), 6) / 6``."""
    return append_layer("hard_swish", {"x": x}, {}, name)


def mish(x: ow.Variable, name: str | None = None) -> ow.Variable:
    """Append ``x * tanh(softplus(x))``."""
    return append_layer("mish", {"x": x}, {}, name)


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
