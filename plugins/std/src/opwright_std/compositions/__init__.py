"""Gradients composed of simpler operators, which can be differentiated again."""
