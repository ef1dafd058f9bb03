"""Reverse-mode differentiation of programs: gradient operators are appended to descriptions."""
