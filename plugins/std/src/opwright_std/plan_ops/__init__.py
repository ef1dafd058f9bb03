"""Operators that only passes put into plans: fusions, for any device that has kernels of them."""
