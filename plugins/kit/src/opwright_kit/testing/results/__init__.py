"""The results of a check, and its packages, operators and kernels."""
