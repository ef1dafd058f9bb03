"""The schemas of ONNX's operators; a table has most of them, since onnx takes long to import.

`defaults` has, for each operator of ONNX's own domain, the defaults of its attributes since some
opsets; tests/onnx/defaults_table.py writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opwright_onnx.translate.defaults import DEFAULTS, NEWEST

if TYPE_CHECKING:
    from onnx.defs import OpSchema


def newest_opset(wanted: int = 0) -> int:
    """Return the newest opset of the table, or of the installed onnx if a newer one is needed."""
    if wanted <= NEWEST:
        return NEWEST
    from onnx import defs  # few models are newer

    return max(NEWEST, int(defs.onnx_opset_version()))


def find_defaults(op_type: str, domain: str, opset: int) -> dict[str, Any] | None:
    """Return the defaults of attributes, None if only onnx has them."""
    if domain or opset > NEWEST:
        return None
    found: dict[str, Any] = {}
    for since, defaults in DEFAULTS.get(op_type, ()):
        if since <= opset:
            found = defaults
    return found


def find_schema(op_type: str, domain: str, opset: int) -> OpSchema | None:
    """Return onnx's schema of an operator at a version, or None."""
    from onnx import defs  # most models need none

    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None
