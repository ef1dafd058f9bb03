"""Activations."""

from __future__ import annotations

from typing import Final

from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()

_NAMES: Final = {"hard_swish": "hardswish", "tanh_shrink": "tanhshrink"}


def _add_plain() -> None:
    """Add rows for activations without arguments."""

    def row(type: str) -> None:
        def write(t: Translator, input: Value) -> Value:
            return t.op(type, input)

        ROWS[f"aten::{_NAMES.get(type, type)}"] = write

    for type in (*_NAMES, "relu", "silu", "mish", "selu", "relu6", "log_sigmoid", "softsign"):
        row(type)


_add_plain()


@ROWS.row("aten::gelu")
def gelu(t: Translator, input: Value, approximate: str) -> Value:
    """Apply the Gaussian error linear unit."""
    return t.op("gelu", input, approximate=approximate)


@ROWS.row("aten::hardtanh")
def hardtanh(t: Translator, input: Value, min_val: float, max_val: float) -> Value:
    """Clamp the input; the gradient at both bounds is 0."""
    if (min_val, max_val) == (0, 6):
        return t.op("relu6", input)
    if not t.trains(input):
        return t.op("clip", input, min=float(min_val), max=float(max_val))
    low, high = (t.full(bound, (), input.dtype) for bound in (min_val, max_val))
    below = t.op("where", t.op("less_equal", input, low), low, input)
    return t.op("where", t.op("greater_equal", input, high), high, below)


@ROWS.row("aten::hardsigmoid")
def hardsigmoid(t: Translator, input: Value) -> Value:
    """Return x / 6 + 1 / 2, clamped to [0, 1]."""
    if not t.trains(input):
        return t.op("hard_sigmoid", input, alpha=1 / 6, beta=0.5)
    # The gradient at -3 and 3 must be 0, although 1 / 6 is rounded.
    inner = t.op("relu6", t.op("scale", input, bias=3.0))
    return t.op("scale", inner, scale=1 / 6)


@ROWS.row("aten::elu")
def elu(t: Translator, input: Value, alpha: float, scale: float, input_scale: float) -> Value:
    """Return `scale` · x above 0, otherwise `scale` · `alpha` · (exp(`input_scale` · x) - 1)."""
    if (scale, input_scale) == (1, 1):
        return t.op("elu", input, alpha=float(alpha))
    raise Decline(f"the factors of elu must be 1, got scale={scale}, input_scale={input_scale}")


@ROWS.row("aten::celu")
def celu(t: Translator, input: Value, alpha: float) -> Value:
    """Apply the continuously differentiable exponential linear unit."""
    return t.op("celu", input, alpha=float(alpha))


@ROWS.row("aten::leaky_relu")
def leaky_relu(t: Translator, input: Value, negative_slope: float) -> Value:
    """Return the input where it is above 0, and a multiple of the input elsewhere."""
    return t.op("leaky_relu", input, alpha=float(negative_slope))


@ROWS.row("aten::rrelu")
def rrelu(
    t: Translator, input: Value, lower: float, upper: float, training: bool, generator: Value
) -> Value:
    """Apply a leaky ReLU with the mean slope, as in inference."""
    if training:
        raise Decline("slopes are random, got training=True")
    return t.op("leaky_relu", input, alpha=(lower + upper) / 2)


@ROWS.row("aten::prelu", "aten::_prelu_kernel")
def prelu(t: Translator, input: Value, weight: Value) -> Value:
    """Return the input where it is above 0; elsewhere, multiply by a learned factor per channel."""
    if len(weight.shape) == 1 and t.shape(weight)[0] != 1 and len(input.shape) > 2:
        weight = t.op("reshape", weight, shape=[-1, *(1 for _ in input.shape[2:])])
    return t.op("prelu", input, weight)


@ROWS.row("aten::softplus")
def softplus(t: Translator, input: Value, beta: float, threshold: float) -> Value:
    """Return ln(1 + exp(`beta` · x)) / `beta`, and x where `beta` · x is above a threshold."""
    if beta == 1 and threshold >= 20 and input.dtype != "float64":
        return t.op("softplus", input)  # beyond 20, both are equal except in float64
    return t.op("softplus", input, beta=float(beta), threshold=float(threshold))


@ROWS.row("aten::glu")
def glu(t: Translator, input: Value, dim: int) -> Value:
    """Return the first half times the sigmoid of the second half."""
    first, second = t.op("split", input, axis=dim, num=2)
    return t.op("multiply", first, t.op("sigmoid", second))


@ROWS.row("aten::softshrink")
def softshrink(t: Translator, input: Value, lambd: float) -> Value:
    """Shrink the input towards 0."""
    return t.op("soft_shrink", input, threshold=float(lambd))


@ROWS.row("aten::hardshrink")
def hardshrink(t: Translator, input: Value, lambd: float) -> Value:
    """Return 0 for elements near 0, and x elsewhere."""
    return t.op("hard_shrink", input, threshold=float(lambd))


@ROWS.row("aten::threshold")
def threshold(t: Translator, input: Value, threshold: float, value: float) -> Value:
    """Return the input where it exceeds `threshold`, and `value` elsewhere."""
    filled = t.full(value, (), input.dtype)
    return t.op("where", t.op("less_equal", input, threshold), filled, input)


@ROWS.row("aten::logit", "aten::special_logit")
def logit(t: Translator, input: Value, eps: Value = None) -> Value:
    """Return ln(x / (1 - x))."""
    return t.op("logit", t.cast(input, t.dtype()), **({} if eps is None else {"eps": eps}))
