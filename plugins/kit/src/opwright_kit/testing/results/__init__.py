"""What a check reports, and the packages, operators and kernels that it reports on."""
