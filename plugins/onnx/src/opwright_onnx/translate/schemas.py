"""The schemas of ONNX's operators; a table has most of them, since onnx takes long to import.

`defaults.json` has, for each operator of ONNX's own domain, the defaults of its attributes since
some opsets; tests/onnx_models/defaults_table.py writes it.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from onnx.defs import OpSchema

TABLE: Final = os.path.join(os.path.dirname(__file__), "defaults.json")


@cache
def _read_table() -> dict[str, Any]:
    with open(TABLE, encoding="utf-8") as file:
        table: dict[str, Any] = json.load(file)
    return table


def newest_opset(wanted: int = 0) -> int:
    """Return the newest opset of the table, of the installed onnx if more is wanted."""
    newest: int = _read_table()["newest"]
    if wanted <= newest:
        return newest
    from onnx import defs  # few models are newer

    return max(newest, int(defs.onnx_opset_version()))


def find_defaults(op_type: str, domain: str, opset: int) -> dict[str, Any] | None:
    """Return the defaults of attributes, None where only onnx knows them."""
    table = _read_table()
    if domain or opset > table["newest"]:
        return None
    found: dict[str, Any] = {}
    for since, defaults in table["defaults"].get(op_type, ()):
        if since <= opset:
            found = defaults
    return found


def find_schema(op_type: str, domain: str, opset: int) -> OpSchema | None:
    """Return what onnx knows of an operator at a version, or None."""
    from onnx import defs  # most models need none

    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None
