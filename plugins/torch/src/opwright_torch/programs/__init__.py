"""Converts PyTorch models to opwright programs with parameters that run without PyTorch."""
