"""Translates a graph of ATen operators to a Program, with one table row per ATen operator.

A row is a function ``row(t, **arguments)``. It takes a `Translator`, and the arguments of the ATen
operator by their names in its schema, with Variables in place of tensors. A row returns the result
Variable, or a tuple of result Variables. Packages register their tables, mappings from
``"aten::NAME"`` or ``"aten::NAME.OVERLOAD"`` to rows, as annexes of the topic ``torch``.
"""

from opwright_torch.translate.table import Decline, Row, Rows, find_row
from opwright_torch.translate.translator import Declined, Translated, Translator, translate

__all__ = [
    "Decline",
    "Declined",
    "Row",
    "Rows",
    "Translated",
    "Translator",
    "find_row",
    "translate",
]
