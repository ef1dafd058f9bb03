"""Operators that only passes create: fusions, for any device with kernels of them."""
