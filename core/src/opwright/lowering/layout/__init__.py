"""Turns a graph with kernels into a plan: lays out memory, and passes steps to the runtime."""
