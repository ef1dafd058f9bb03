"""ONNX operator schemas; most of them are in a table, since importing onnx takes long.

For each operator of the ONNX domain, `defaults` lists attribute defaults and the first opset to
which they apply. tests/onnx/defaults_table.py generates `defaults`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opwright_onnx.translate.defaults import DEFAULTS, NEWEST

if TYPE_CHECKING:
    from onnx.defs import OpSchema


def newest_opset(wanted: int = 0) -> int:
    """Return the newest opset of the table, or of the installed onnx if the model is newer."""
    if wanted <= NEWEST:
        return NEWEST
    from onnx import defs  # few models are newer than the table

    return max(NEWEST, int(defs.onnx_opset_version()))


def find_defaults(op_type: str, domain: str, opset: int) -> dict[str, Any] | None:
    """Return the attribute defaults, or None if only the onnx package has them."""
    if domain or opset > NEWEST:
        return None
    found: dict[str, Any] = {}
    for since, defaults in DEFAULTS.get(op_type, ()):
        if since <= opset:
            found = defaults
    return found


def find_schema(op_type: str, domain: str, opset: int) -> OpSchema | None:
    """Return the onnx schema of an operator at a version, or None."""
    from onnx import defs  # most models do not need a schema

    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None
