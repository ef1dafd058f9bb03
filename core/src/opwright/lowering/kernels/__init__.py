"""Which kernel computes each operator of a graph, and how it is prepared."""
