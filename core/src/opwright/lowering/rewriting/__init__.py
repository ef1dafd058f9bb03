"""Runs passes over a graph, and provides the tools with which they rewrite it."""
