"""Computes gradients with the framework, and differences to compare the gradients with."""
