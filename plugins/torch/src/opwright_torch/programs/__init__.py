"""Converts PyTorch models to opwright programs with parameters, which run without PyTorch."""
