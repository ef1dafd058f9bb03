"""Turns a graph with kernels into a plan by laying out memory and passing steps to the runtime."""
