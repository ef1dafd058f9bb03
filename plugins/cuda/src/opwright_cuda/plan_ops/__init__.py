"""Operators that only passes put into plans: what opwright-std's passes fuse on a GPU."""
