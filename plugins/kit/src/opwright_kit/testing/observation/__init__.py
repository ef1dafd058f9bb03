"""Runs kernels on samples for the rules, and compares the memory afterwards."""
