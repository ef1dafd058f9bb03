"""Dropout, and random numbers from the seed of the Program and ``@step``."""

from __future__ import annotations

from typing import Final

from opwright_torch.aten.pointwise import without_gradient
from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


@ROWS.row("aten::dropout", "aten::native_dropout")
def dropout(t: Translator, input: Value, p: float, train: Value = True) -> Value:
    """Drop elements of the input; also return the mask if the ATen operator does."""
    both = isinstance(t.meta(), (tuple, list))
    if train is False or (p == 0 and not both):
        if both:
            return input, t.op("expand", t.full(True, (), "bool"), shape=t.shape(input))
        return input
    return t.op("dropout", input, probability=float(p), training=True, n=2 if both else None)


@ROWS.row("aten::feature_dropout")
def feature_dropout(t: Translator, input: Value, p: float, train: bool) -> Value:
    """Drop entire channels of the input."""
    if not train or p == 0:
        return input
    shape = [*t.shape(input)[:2]] + [1] * (len(input.shape) - 2)
    noise = t.full(1, shape, input.dtype)
    return t.op("multiply", input, t.op("dropout", noise, probability=float(p), training=True))


@ROWS.row("aten::rand", "aten::rand_like")
def rand(t: Translator, **_: Value) -> Value:
    """Return uniformly distributed numbers in [0, 1)."""
    return _uniform(t, 0.0, 1.0)


def _uniform(t: Translator, low: float, high: float) -> Value:
    return t.op("uniform", shape=t.shape(), min=low, max=high, dtype=t.dtype())


def _normal(t: Translator, mean: float, std: float) -> Value:
    return t.op("normal", shape=t.shape(), mean=mean, std=std, dtype=t.dtype())


@ROWS.row("aten::randn", "aten::randn_like")
def randn(t: Translator, **_: Value) -> Value:
    """Return numbers from the standard normal distribution."""
    return _normal(t, 0.0, 1.0)


@ROWS.row("aten::uniform")
def uniform(t: Translator, input: Value, **named: Value) -> Value:
    """Return uniformly distributed numbers in the shape of the input."""
    return _uniform(t, float(named["from"]), float(named["to"]))


@ROWS.row("aten::normal_functional", "aten::normal.float_float")
def normal(t: Translator, mean: Value = 0, std: Value = 1, **_: Value) -> Value:
    """Return normally distributed numbers."""
    return _normal(t, float(mean), float(std))


@ROWS.row("aten::normal.Tensor_float", "aten::normal.float_Tensor", "aten::normal.Tensor_Tensor")
def normal_of(t: Translator, mean: Value, std: Value = 1, **_: Value) -> Value:
    """Return normally distributed numbers; the mean, the standard deviation or both are tensors."""
    center, deviation = t.promote(mean, std)
    return t.op("add", center, t.op("multiply", deviation, _normal(t, 0.0, 1.0)))


@ROWS.row("aten::randint", "aten::randint_like")
def randint(t: Translator, high: int, low: int = 0, **_: Value) -> Value:
    """Return integers in [`low`, `high`)."""
    if t.dtype() in ("int32", "int64"):
        return t.op("randint", shape=t.shape(), low=low, high=high, dtype=t.dtype())
    return t.cast(t.op("randint", shape=t.shape(), low=low, high=high, dtype="int64"), t.dtype())


@ROWS.row("aten::randperm")
def randperm(t: Translator, n: Value, **_: Value) -> Value:
    """Return a random permutation of range(`n`)."""
    keys = t.op("uniform", shape=[n], min=0.0, max=1.0, dtype="float64")
    return t.cast(t.op("argsort", keys), t.dtype())


@ROWS.row("aten::bernoulli")
def bernoulli(t: Translator, input: Value, p: Value = None, generator: Value = None) -> Value:
    """Return 1 with the given probability, otherwise 0."""
    if p is None:
        chances = input
    elif isinstance(p, float):
        chances = t.full(p, t.shape(), t.dtype())
    else:
        chances = t.op("expand", t.cast(p, t.dtype()), shape=t.shape())
    if chances.dtype not in ("float16", "bfloat16", "float32", "float64"):
        raise Decline(f"probabilities must be floats, got {chances.dtype}")
    return without_gradient(t, t.op("bernoulli", chances), chances)


@ROWS.row("aten::exponential")
def exponential(t: Translator, input: Value, lambd: float = 1, generator: Value = None) -> Value:
    """Return exponentially distributed numbers."""
    uniform = t.op("uniform", shape=t.shape(), min=0.0, max=1.0, dtype=t.dtype())
    return t.op("scale", t.op("log1p", t.op("negative", uniform)), scale=-1 / lambd)
