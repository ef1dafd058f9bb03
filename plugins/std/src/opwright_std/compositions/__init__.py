"""Gradients written as simpler operators, which are differentiated in their place."""
