"""Networks as pages: operators in layers, chosen kernels, and what each step takes."""

from __future__ import annotations

from opwright.drawing.page import Drawn, write_page

__all__ = ["Drawn", "write_page"]
