"""Operators that only the passes of this package create; programs do not contain them."""
