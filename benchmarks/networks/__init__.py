"""The networks that contestants build: their parameters and inputs, made with NumPy alone."""
