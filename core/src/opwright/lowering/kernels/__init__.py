"""Chooses and prepares the kernel of each operator of a graph."""
