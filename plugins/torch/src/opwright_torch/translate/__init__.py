"""Translates a graph of ATen operators to a Program, with one table row per ATen operator.

A row is a function ``row(t, **arguments)`` of a `Translator` and the arguments of the ATen schema
by name: Variables for tensors, numbers, and None. It returns the Variable of the result, or a tuple
of them. Packages register their tables, mappings from ``"aten::NAME"`` or ``"aten::NAME.OVERLOAD"``
to rows, as annexes of the topic ``torch``.
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
