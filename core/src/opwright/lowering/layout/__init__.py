"""From a graph with kernels to a plan: memory laid out, steps handed to the runtime."""
