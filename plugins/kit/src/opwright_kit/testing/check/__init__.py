"""Applies the rules to a distribution, in this process or in a separate process."""
