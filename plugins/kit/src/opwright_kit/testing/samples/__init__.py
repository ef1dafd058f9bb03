"""Inputs and attributes for operators: drawn, changed, or intentionally wrong."""
