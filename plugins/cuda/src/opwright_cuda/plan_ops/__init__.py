"""Operators that only the passes of this package create."""
