"""Bundles: what was lowered, with its weights, in one file that runs without Python."""
