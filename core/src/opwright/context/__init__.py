"""The Context: registries, pins, options and the number of threads, which determine plans."""
