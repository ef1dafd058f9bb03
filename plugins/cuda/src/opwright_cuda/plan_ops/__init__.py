"""Operators that the pass of this package alone puts into plans."""
