"""Networks as pages: operators in layers, chosen kernels, and the time of each step."""

from __future__ import annotations

from opwright_kit.drawing.layer_drawing import DrawnLayer, LayerDrawing
from opwright_kit.drawing.notebook import frame_program
from opwright_kit.drawing.page import Drawn, write_page
from opwright_kit.drawing.writing import check_target

__all__ = [
    "Drawn",
    "DrawnLayer",
    "LayerDrawing",
    "check_target",
    "frame_program",
    "write_page",
]
