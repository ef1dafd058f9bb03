"""The rows of all installed packages for writing opwright operators as ONNX operators."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from opwright import Context, current_context
from opwright_onnx.translate.table import Function, all_rows

TOPIC: Final = "onnx_write"


def find_function(op_type: str) -> Function | None:
    """Return the row function that writes an operator type, or None."""
    context = current_context()
    return _all_functions(context, context.epoch.now).get(op_type)


def find_data(op_type: str) -> list[tuple[str, str, int, Mapping[str, str]]]:
    """Return (domain, name, first opset, ONNX attribute names by opwright name) of data rows."""
    context = current_context()
    return _all_data(context, context.epoch.now).get(op_type, [])


@lru_cache(maxsize=4)
def _all_functions(context: Context, epoch: int) -> dict[str, Function]:
    tables = [entry.load() for entry in context.annexes.entries(TOPIC)]
    return dict(ChainMap(*reversed(tables)))


@lru_cache(maxsize=4)
def _all_data(context: Context, epoch: int) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for key, row in all_rows(context, epoch).items():
        if not callable(row):
            since, op_type, names = row
            domain, _, name = key.rpartition("::")
            ours = {ours: theirs for theirs, ours in names.items()}
            found.setdefault(op_type, []).append((domain, name, since, ours))
    return found
