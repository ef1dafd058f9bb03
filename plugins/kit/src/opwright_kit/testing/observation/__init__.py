"""Runs kernels on samples for the rules, and compares what they leave behind."""
