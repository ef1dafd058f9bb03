"""Fused operators that only passes create, for any device with kernels for them."""
