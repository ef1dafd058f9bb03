"""The standard operators: of each its meaning, shapes and gradient, and a NumPy kernel."""
