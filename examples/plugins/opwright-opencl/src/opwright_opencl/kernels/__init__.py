"""The launches of each operator, which ``prepare`` determines without pyopencl."""
