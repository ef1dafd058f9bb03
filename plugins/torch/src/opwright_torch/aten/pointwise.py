"""Element by element."""

from __future__ import annotations

from typing import Final

from opwright_torch.translate import Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


@ROWS.row("aten::add.Tensor", "aten::add.Scalar")
def add(t: Translator, input: Value, other: Value, alpha: Value) -> Value:
    """`input` + `alpha` · `other`."""
    x, y = t.promote(input, other)
    return t.op("add", x, y if alpha == 1 else t.op("multiply", y, alpha))


@ROWS.row("aten::relu")
def relu(t: Translator, input: Value) -> Value:
    """The larger of the input and 0."""
    return t.op("relu", input)
