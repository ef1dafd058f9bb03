"""Represents complex numbers as pairs of reals, for rotary embeddings with complex products."""

from __future__ import annotations

from typing import Final

import opwright as ow
from opwright_torch.aten.shapes import rank, with_shape
from opwright_torch.calls.emitting import Complex
from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


@ROWS.row("aten::view_as_complex", "aten::view_as_complex_copy")
def view_as_complex(t: Translator, input: Value) -> Complex:
    """Return the complex numbers whose real and imaginary parts are along the last axis."""
    return Complex(input, t.meta())


@ROWS.row("complex aten::view_as_real", "complex aten::view_as_real_copy")
def view_as_real(t: Translator, input: Complex) -> Value:
    """Return the real and imaginary parts along a last axis."""
    return input.pair


@ROWS.row("aten::complex")
def complex_(t: Translator, real: Value, imag: Value) -> Complex:
    """Return the complex numbers with these real and imaginary parts."""
    shape = t.shape()
    parts = [x if t.shape(x) == shape else t.op("expand", x, shape=shape) for x in (real, imag)]
    return Complex(t.op("stack", parts, axis=len(shape)), t.meta())


@ROWS.row("aten::polar")
def polar(t: Translator, abs: Value, angle: Value) -> Complex:
    """Return the complex numbers with these absolute values and angles."""
    x, y = (t.op("multiply", abs, t.op(part, angle)) for part in ("cos", "sin"))
    return Complex(t.op("stack", [x, y], axis=len(t.shape())), t.meta())


@ROWS.row("complex aten::unsqueeze", "complex aten::squeeze", "complex aten::view")
@ROWS.row("complex aten::reshape", "complex aten::flatten", "complex aten::_unsafe_view")
def reshape(t: Translator, input: Complex, **_: Value) -> Complex:
    """Return the same numbers with a different shape."""
    return Complex(with_shape(t, input.pair, [*t.shape(), 2]), t.meta())


@ROWS.row("complex aten::mul", "complex aten::multiply")
def multiply(t: Translator, input: Value, other: Value) -> Complex:
    """Return the product of complex numbers, one of which may be real."""
    x, y = (input, other) if isinstance(input, Complex) else (other, input)
    if isinstance(y, Complex):
        return _product(t, x, y)
    if isinstance(y, complex):
        raise Decline(f"a factor is a complex Python number, got {y}")
    if isinstance(y, ow.Variable):
        y = t.op("unsqueeze", t.cast(y, x.pair.dtype), axis=[rank(y)])
    return Complex(t.op("multiply", x.pair, y), t.meta())


def _product(t: Translator, x: Complex, y: Complex) -> Complex:
    (a, b), (c, d) = (t.op("split", z.pair, axis=rank(z.pair) - 1, num=2) for z in (x, y))
    real = t.op("subtract", t.op("multiply", a, c), t.op("multiply", b, d))
    imaginary = t.op("add", t.op("multiply", a, d), t.op("multiply", b, c))
    return Complex(t.op("concat", [real, imaginary], axis=len(t.shape())), t.meta())
