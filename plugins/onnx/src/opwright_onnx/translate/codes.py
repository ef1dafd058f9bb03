"""Dtypes that opwright lacks: elements are carried as bytes, which operators decode and encode."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from opwright_onnx.dtypes import Array
from opwright_onnx.messages import DataType

if TYPE_CHECKING:
    from opwright_onnx.translate.translator import Translator

KINDS: Final = {
    int(DataType.FLOAT8E4M3FNUZ): "float8_e4m3fnuz",
    int(DataType.FLOAT8E5M2FNUZ): "float8_e5m2fnuz",
    int(DataType.FLOAT8E8M0): "float8_e8m0fnu",
    int(DataType.FLOAT4E2M1): "float4_e2m1fn",
    int(DataType.INT2): "int2",
    int(DataType.UINT2): "uint2",
}
"""The names of the carried dtypes by ONNX element type."""


class Codes:
    """A tensor whose dtype opwright lacks, stored as bytes together with the dtype name.

    Attributes
    ----------
    codes : Variable or array of uint8
    kind : str
    """

    __slots__ = ("codes", "kind")

    def __init__(self, codes: Any, kind: str) -> None:
        self.codes = codes
        self.kind = kind

    @property
    def shape(self) -> Any:
        """The shape of the tensor."""
        return self.codes.shape


def carried_dtype(kind: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a carried dtype."""
    import ml_dtypes  # few models have such tensors

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, kind))
    return dtype


def as_codes(array: Array) -> Array | Codes:
    """Convert an array of a carried dtype to `Codes`; return other arrays unchanged."""
    kind = array.dtype.name
    return Codes(array.view(np.uint8), kind) if kind in KINDS.values() else array


def decode(t: Translator, value: Codes) -> Any:
    """Decode codes to float32."""
    table = np.arange(256, dtype=np.uint8).view(carried_dtype(value.kind)).astype(np.float32)
    return t.op("gather", table, t.cast(value.codes, "int32"))


class _Table(NamedTuple):
    """The non-negative values of a carried float dtype, and one value above the largest."""

    numbers: Array
    middles: Array
    not_a_number: int
    sign: int


@lru_cache(maxsize=8)
def _make_table(kind: str) -> _Table:
    decoded = np.arange(256, dtype=np.uint8).view(carried_dtype(kind)).astype(np.float64)
    sign = {"float4_e2m1fn": 8, "float8_e8m0fnu": 0}.get(kind, 128)
    numbers = decoded[: sign or 255]
    behind = 2 * numbers[-1] - numbers[-2]
    numbers = np.append(numbers, behind)
    nan = {"float4_e2m1fn": 0, "float8_e8m0fnu": 255}.get(kind, 128)
    return _Table(numbers, (numbers[1:] + numbers[:-1]) / 2, nan, sign)


def encode(t: Translator, x: Any, kind: str, saturate: bool, rounding: str) -> Codes:
    """Encode numbers in a carried dtype, ties to even; overflow saturates or becomes NaN."""
    if kind in ("int2", "uint2"):
        whole = t.op("mod", t.cast(x, "int32"), 4)
        return Codes(t.cast(whole, "uint8"), kind)
    table = _make_table(kind)
    x = t.cast(x, "float64")
    size = t.op("abs", x)
    if rounding == "nearest":
        index = _nearest(t, table, size)
    else:
        side = "left" if rounding == "up" else "right"
        found = t.op("searchsorted", table.numbers, size, side=side)
        index = t.op("maximum", found if rounding == "up" else t.op("subtract", found, 1), 0)
    last = len(table.numbers) - 2
    is_beyond = t.op("greater", index, last)
    index = t.op("minimum", index, last)
    lost = t.op("isnan", x) if saturate else t.op("logical_or", t.op("isnan", x), is_beyond)
    if table.sign:
        below = t.op("less", x, 0)
        if kind != "float4_e2m1fn":  # float8 ...fnuz dtypes have no negative zero
            below = t.op("logical_and", below, t.op("greater", index, 0))
        index = t.op("where", below, t.op("add", index, table.sign), index)
    index = t.op("where", lost, t.scalar(table.not_a_number, "int64"), index)
    return Codes(t.cast(index, "uint8"), kind)


def _nearest(t: Translator, table: _Table, size: Any) -> Any:
    """Return the code of the nearest value, with ties to the even code."""
    low = t.op("searchsorted", table.middles, size, side="left")
    high = t.op("searchsorted", table.middles, size, side="right")
    is_odd = t.op("not_equal", t.op("mod", low, 2), 0)
    return t.op("where", is_odd, high, low)
