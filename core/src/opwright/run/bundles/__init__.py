"""Bundles: lowered plans with their weights, in one file that runs without Python."""
