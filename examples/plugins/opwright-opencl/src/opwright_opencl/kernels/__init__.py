"""Kernels: the launches of each operator, decided in ``prepare``. No file here imports pyopencl."""
