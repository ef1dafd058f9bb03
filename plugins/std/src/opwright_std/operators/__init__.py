"""The standard operators, each with its meaning, shapes, gradient and a NumPy kernel."""
