"""Applies the rules to a distribution, in this process or in one of their own."""
