"""The collective operators."""
