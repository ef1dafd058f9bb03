"""Targets of registrations: Python kernels by signature, and compiled libraries."""
