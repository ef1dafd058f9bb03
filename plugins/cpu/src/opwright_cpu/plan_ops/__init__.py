"""Operators that only the passes of this package put into plans; no program contains them."""
