"""Registers opwright-onnx objects by name, without importing them."""

from __future__ import annotations

from opwright import plugin

WRITTEN = (
    "control",
    "elementwise",
    "indexing",
    "losses",
    "normalization",
    "recurrent",
    "reductions",
    "shapes",
    "windows",
)


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Name the tables that map ONNX operators to opwright operators, and back."""
    registry.add("onnx", "rows", "opwright_onnx.rows:ROWS")
    for subject in WRITTEN:
        registry.add("onnx_write", f"rows.{subject}", f"opwright_onnx.writing.rows.{subject}:ROWS")
    registry.add("check", "onnx", "opwright_onnx.checking:check_rows")
    registry.add("check", "onnx_write", "opwright_onnx.checking:check_writers")
    registry.add("rule", "onnx", "opwright_onnx.checking:check_operator")
    registry.add("reader", "onnx", "opwright_onnx.specializing:read")
