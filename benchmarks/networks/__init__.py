"""The networks that contestants build: their parameters and inputs, made only with NumPy."""
