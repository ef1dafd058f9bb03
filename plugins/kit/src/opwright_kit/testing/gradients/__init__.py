"""Gradients by the framework, and the slopes that they are compared with."""
