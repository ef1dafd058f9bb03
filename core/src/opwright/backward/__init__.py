"""Reverse-mode differentiation of programs: gradient operators are appended to descriptions."""

from __future__ import annotations

from opwright.backward.append import append_backward

__all__ = ["append_backward"]
