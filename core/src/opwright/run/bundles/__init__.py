"""Bundles: files with lowered plans and their weights, which run without Python."""
