"""Passes: runs them over a graph, with the tools that they rewrite it by."""
