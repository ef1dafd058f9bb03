"""The targets of registrations, which are Python kernels and compiled libraries."""
