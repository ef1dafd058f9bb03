"""The table of what opwright-onnx provides; it only names things."""

from __future__ import annotations

from opwright import plugin

SUBJECTS = (
    "attention",
    "casting",
    "control",
    "elementwise",
    "images",
    "indexing",
    "microsoft",
    "normalization",
    "pooling",
    "products",
    "quantization",
    "recurrent",
    "reductions",
    "resizing",
    "sequences",
    "shapes",
    "signals",
    "texts",
    "training",
)
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
    """Name the tables from operators of ONNX to what writes ours, and back."""
    for subject in SUBJECTS:
        registry.add("onnx", f"rows.{subject}", f"opwright_onnx.rows.{subject}:ROWS")
    for subject in WRITTEN:
        registry.add("onnx_write", f"rows.{subject}", f"opwright_onnx.writing.rows.{subject}:ROWS")
    registry.add("check", "onnx", "opwright_onnx.checking:check_rows")
    registry.add("check", "onnx_write", "opwright_onnx.checking:check_writers")
    registry.add("rule", "onnx", "opwright_onnx.checking:check_operator")
    registry.add("reader", "onnx", "opwright_onnx.specializing:read")
