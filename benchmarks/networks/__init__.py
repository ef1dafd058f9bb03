"""The networks that implementations build: their parameters and inputs, created only with NumPy."""
