"""Gradients by the framework, and the differences that they are compared with."""
