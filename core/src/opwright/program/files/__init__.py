"""Saves programs with their parameters, and loads them; no code in a file is run."""
