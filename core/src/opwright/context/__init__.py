"""The Context, which decides plans: registries, pins and options, beside the number of threads."""
