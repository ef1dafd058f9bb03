"""Operators that only the passes of this package insert into plans; no program contains them."""
