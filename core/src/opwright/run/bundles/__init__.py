"""Bundles, which are files with lowered plans and their weights that run without Python."""
