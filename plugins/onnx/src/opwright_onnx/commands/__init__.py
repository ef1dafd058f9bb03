"""The command that opwright-onnx adds to ``opwright``."""

from __future__ import annotations

from typing import Final

from opwright.commands import Command

ONNX: Final = Command(
    "report what an ONNX model needs, or convert one to a saved program and back",
    "opwright_onnx.commands.onnx",
)
