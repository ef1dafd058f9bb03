"""Computes gradients by the framework, and the differences to compare them with."""
