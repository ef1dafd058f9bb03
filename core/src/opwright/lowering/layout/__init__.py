"""From a graph with kernels to a plan: memory laid out, steps passed to the runtime."""
