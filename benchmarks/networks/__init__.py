"""The parameters and inputs of the networks that implementations build, created with NumPy."""
