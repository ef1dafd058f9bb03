"""The Context, which determines plans: registries, pins, options and the number of threads."""
