"""Inputs and attributes for operators: drawn, changed, or wrong on purpose."""
