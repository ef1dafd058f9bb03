"""The Context, which decides plans: registries, pins, options and the number of threads."""
