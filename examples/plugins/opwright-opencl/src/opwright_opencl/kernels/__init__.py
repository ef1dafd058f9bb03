"""Kernels: the launches of each operator, determined in ``prepare`` without pyopencl."""
