"""Comparisons, logic, selection and casts."""

from __future__ import annotations

from typing import Final

from opwright_torch.translate import Decline, Row, Rows, Translator
from opwright_torch.translate.translator import FLOATS, Value

ROWS: Final = Rows()


def _comparison(type: str) -> Row:
    def row(t: Translator, input: Value, other: Value) -> Value:
        return t.op(type, *t.promote(input, other, dtype=t.promoted_dtype(input, other)))

    row.__doc__ = f"Append the operator {type} in PyTorch's promoted dtype."
    return row


for _type, _names in {
    "equal": "eq",
    "not_equal": "ne not_equal",
    "less": "lt less",
    "less_equal": "le less_equal",
    "greater": "gt greater",
    "greater_equal": "ge greater_equal",
}.items():
    ROWS.row(*(f"aten::{name}" for name in _names.split()))(_comparison(_type))


def _logic(type: str) -> Row:
    def row(t: Translator, input: Value, other: Value) -> Value:
        return t.op(type, *t.promote(input, other, dtype="bool"))

    row.__doc__ = f"Append the operator {type}; nonzero values are true."
    return row


def _bits(type: str) -> Row:
    def row(t: Translator, input: Value, other: Value) -> Value:
        if t.dtype() in FLOATS:
            raise Decline(f"bits of {t.dtype()}")
        return t.op(type, *t.promote(input, other))

    row.__doc__ = f"Append the operator {type} in the dtype of PyTorch's result."
    return row


for _kind in ("and", "or", "xor"):
    ROWS.row(f"aten::logical_{_kind}")(_logic(f"logical_{_kind}"))
    ROWS.row(f"aten::bitwise_{_kind}", f"aten::__{_kind}__")(_bits(f"bitwise_{_kind}"))
for _kind in ("left", "right"):
    ROWS.row(f"aten::bitwise_{_kind}_shift", f"aten::__{_kind[0]}shift__")(_bits(f"{_kind}_shift"))


@ROWS.row("aten::logical_not")
def logical_not(t: Translator, input: Value) -> Value:
    """Return whether a value is 0."""
    return t.op("logical_not", input)


@ROWS.row("aten::bitwise_not")
def bitwise_not(t: Translator, input: Value) -> Value:
    """Return the input with all bits inverted."""
    return t.op("bitwise_not", input)


def _asked(type: str) -> Row:
    def row(t: Translator, input: Value) -> Value:
        return t.op(type, input)

    row.__doc__ = f"Append the operator {type}."
    return row


for _type in ("isnan", "isinf", "isfinite"):
    ROWS.row(f"aten::{_type}")(_asked(_type))


@ROWS.row("aten::isposinf")
def isposinf(t: Translator, input: Value) -> Value:
    """Return whether a value is infinity."""
    return _is(t, input, float("inf"))


@ROWS.row("aten::isneginf")
def isneginf(t: Translator, input: Value) -> Value:
    """Return whether a value is -infinity."""
    return _is(t, input, float("-inf"))


def _is(t: Translator, input: Value, value: float) -> Value:
    if input.dtype not in FLOATS:
        return t.op("expand", t.full(False, (), "bool"), shape=t.shape())
    return t.op("equal", input, value)


@ROWS.row("aten::where.self", "aten::where.ScalarSelf", "aten::where.ScalarOther")
@ROWS.row("aten::where.Scalar")
def where(t: Translator, condition: Value, input: Value, other: Value) -> Value:
    """Return `input` where the condition is true, and `other` elsewhere."""
    return t.op("where", t.cast(condition, "bool"), *t.promote(input, other))


@ROWS.row("aten::masked_fill")
def masked_fill(t: Translator, input: Value, mask: Value, value: Value) -> Value:
    """Return `value` where the mask is true, and the input elsewhere."""
    return t.op("where", t.cast(mask, "bool"), *t.promote(value, input))


@ROWS.row("aten::to", "aten::_to_copy", "aten::type_as", "aten::_cast")
def convert(t: Translator, input: Value, **_: Value) -> Value:
    """Cast the input to the result dtype; plans ignore devices and memory formats."""
    return t.cast(input, t.dtype())


@ROWS.row("aten::view.dtype")
def view_dtype(t: Translator, input: Value, dtype: Value) -> Value:
    """Reinterpret the bytes of the input as elements of another dtype."""
    if "bool" in (input.dtype, t.dtype()):
        raise Decline(f"bytes of {input.dtype} cannot be viewed as {t.dtype()}")
    return t.op("bit_cast", input, dtype=t.dtype())


@ROWS.row("aten::clone", "aten::contiguous", "aten::alias", "aten::lift_fresh_copy")
@ROWS.row("aten::lift_fresh", "aten::lift", "aten::positive")
def same(t: Translator, input: Value, **_: Value) -> Value:
    """Return the input itself: plans never overwrite values and use a single memory format."""
    return input


@ROWS.row("aten::detach", "aten::detach_copy")
def detach(t: Translator, input: Value) -> Value:
    """Return the input without a gradient."""
    return t.stop(t.op("assign", input)) if t.trains(input) else input


@ROWS.row("aten::_assert_tensor_metadata", "aten::_assert_async", "aten::_assert_scalar")
@ROWS.row("aten::sym_constrain_range_for_size", "aten::sym_constrain_range")
def nothing(t: Translator, **_: Value) -> Value:
    """Append no operator, since PyTorch checked the assertion during tracing."""
    return None
