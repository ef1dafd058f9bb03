"""Activation functions: relu, sigmoid, softmax and so on."""

from __future__ import annotations

import opwright as ow
from opwright_nn.layers.inputs import Input
from opwright_nn.layers.layer import append_layer


def relu(input: Input, name: str | None = None) -> ow.Variable:
    """Append ``max(x, 0)``."""
    return append_layer("relu", {"x": input}, {}, name)


def leaky_relu(input: Input, alpha: float = 0.01, name: str | None = None) -> ow.Variable:
    """Append ``x where x > 0, otherwise alpha * x``."""
    return append_layer("leaky_relu", {"x": input}, {"alpha": alpha}, name)


def elu(input: Input, alpha: float = 1.0, name: str | None = None) -> ow.Variable:
    """Append ``x where x > 0, otherwise alpha * (exp(x) - 1)``."""
    return append_layer("elu", {"x": input}, {"alpha": alpha}, name)


def gelu(input: Input, approximate: str = "none", name: str | None = None) -> ow.Variable:
    """Append ``x * P(X <= x)``, X standard normal; `approximate` is "none" or "tanh"."""
    return append_layer("gelu", {"x": input}, {"approximate": approximate}, name)


def selu(input: Input, name: str | None = None) -> ow.Variable:
    """Append ``1.0507 * elu(x, alpha=1.6733)``, which keeps the mean 0 and the variance 1."""
    return append_layer("selu", {"x": input}, {}, name)


def relu6(input: Input, name: str | None = None) -> ow.Variable:
    """Append ``min(max(x, 0), 6)``."""
    return append_layer("relu6", {"x": input}, {}, name)


def hard_sigmoid(
    input: Input, alpha: float = 0.2, beta: float = 0.5, name: str | None = None
) -> ow.Variable:
    """Append ``min(max(alpha * x + beta, 0), 1)``; PyTorch's `alpha` is 1 / 6."""
    return append_layer("hard_sigmoid", {"x": input}, {"alpha": alpha, "beta": beta}, name)


def hard_swish(input: Input, name: str | None = None) -> ow.Variable:
    """Append ``x * min(max(x + 3, 0), 6) / 6``."""
    return append_layer("hard_swish", {"x": input}, {}, name)


def mish(input: Input, name: str | None = None) -> ow.Variable:
    """Append ``x * tanh(softplus(x))``."""
    return append_layer("mish", {"x": input}, {}, name)


def silu(input: Input, name: str | None = None) -> ow.Variable:
    """Append ``x * sigmoid(x)``."""
    return append_layer("silu", {"x": input}, {}, name)


def softplus(input: Input, name: str | None = None) -> ow.Variable:
    """Append ``log(1 + exp(x))``."""
    return append_layer("softplus", {"x": input}, {}, name)


def sigmoid(input: Input, name: str | None = None) -> ow.Variable:
    """Append ``1 / (1 + exp(-x))``."""
    return append_layer("sigmoid", {"x": input}, {}, name)


def tanh(input: Input, name: str | None = None) -> ow.Variable:
    """Append ``tanh(x)``."""
    return append_layer("tanh", {"x": input}, {}, name)


def softmax(input: Input, axis: int = -1, name: str | None = None) -> ow.Variable:
    """Append ``exp(x) / sum(exp(x))`` over `axis`."""
    return append_layer("softmax", {"x": input}, {"axis": axis}, name)


def log_softmax(input: Input, axis: int = -1, name: str | None = None) -> ow.Variable:
    """Append ``log(softmax(x))`` over `axis`."""
    return append_layer("log_softmax", {"x": input}, {"axis": axis}, name)
