"""Products of matrices, convolutions and attention."""

from __future__ import annotations

from typing import Final

from opwright_torch.translate import Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


@ROWS.row("aten::linear")
def linear(t: Translator, input: Value, weight: Value, bias: Value) -> Value:
    """`input` @ `weight`ᵀ + `bias`."""
    last = len(input.shape) - 1
    return t.op("fc", input, weight, bias, transpose_weight=True, num_flatten_dims=last)
