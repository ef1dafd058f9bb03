"""Tensors created from numbers."""

from __future__ import annotations

from typing import Final

import torch

import opwright as ow
from opwright_torch.aten.pointwise import unread
from opwright_torch.aten.shapes import identity
from opwright_torch.translate import Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


def _filled(t: Translator, value: Value) -> Value:
    if isinstance(value, ow.Variable):
        return t.op("expand", t.cast(value, t.dtype()), shape=t.shape())
    return t.full(value, t.shape(), t.dtype())


@ROWS.row("aten::zeros", "aten::zeros_like", "aten::new_zeros")
@ROWS.row("aten::empty", "aten::empty_like", "aten::new_empty", "aten::new_empty_strided")
@ROWS.row("aten::empty_strided", "aten::empty_permuted", "aten::_efficientzerotensor")
def zeros(t: Translator, **_: Value) -> Value:
    """Return zeros, also for ``empty``, since its values are unspecified."""
    return _filled(t, 0)


@ROWS.row("aten::ones", "aten::ones_like", "aten::new_ones")
def ones(t: Translator, **_: Value) -> Value:
    """Return ones."""
    return _filled(t, 1)


@ROWS.row("aten::full", "aten::full_like", "aten::new_full")
def full(t: Translator, fill_value: Value, **_: Value) -> Value:
    """Return a tensor filled with one value."""
    return _filled(t, fill_value)


@ROWS.row("aten::fill", "aten::zero")
def fill(t: Translator, input: Value, value: Value = 0) -> Value:
    """Return a tensor filled with one value; the gradient of the input is 0."""
    filled = _filled(t, value)
    return unread(t, input, filled) if t.trains(input) else filled


@ROWS.row("aten::scalar_tensor")
def scalar_tensor(t: Translator, s: Value, **_: Value) -> Value:
    """Return a scalar."""
    return _filled(t, s)


@ROWS.row("aten::arange")
def arange(t: Translator, end: Value, start: Value = 0, step: Value = 1, **_: Value) -> Value:
    """Return numbers from `start` to `end`, exclusive."""
    dtype = t.dtype()
    if dtype not in ("float16", "bfloat16", "int8", "int16", "uint8"):
        return t.op("arange", start=start, stop=end, step=step, dtype=dtype)
    wide = t.op("arange", start=start, stop=end, step=step, dtype="float64")
    return t.cast(wide, dtype)


@ROWS.row("aten::linspace")
def linspace(t: Translator, start: Value, end: Value, steps: int, **_: Value) -> Value:
    """Return evenly spaced numbers."""
    return t.op("linspace", start=start, stop=end, num=steps, dtype=t.dtype())


@ROWS.row("aten::logspace")
def logspace(
    t: Translator, start: Value, end: Value, steps: int, base: float = 10, **_: Value
) -> Value:
    """Return powers with evenly spaced exponents."""
    exponents = t.op("linspace", start=start, stop=end, num=steps, dtype="float64")
    return t.cast(t.op("power", t.full(base, (), "float64"), exponents), t.dtype())


@ROWS.row("aten::eye")
def eye(t: Translator, n: int, m: Value = None, **_: Value) -> Value:
    """Return a matrix with ones on the diagonal."""
    return identity(t, n, n if m is None else m, t.dtype())


@ROWS.row("aten::tril_indices", "aten::triu_indices")
def triangle_indices(t: Translator, row: int, col: int, offset: int = 0, **_: Value) -> Value:
    """Return the indices of the elements in a triangle of a matrix."""
    found = getattr(torch, t.node.target.name()[6:])(row, col, offset)
    return t.op(
        "constant", values=found.flatten().tolist(), shape=list(found.shape), dtype=t.dtype()
    )
