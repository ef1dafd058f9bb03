"""The operator ``cosine.similarity`` for opwright, compiled for the CPU and for CUDA."""
