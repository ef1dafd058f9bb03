"""The targets of registrations: Python kernels and compiled libraries."""
