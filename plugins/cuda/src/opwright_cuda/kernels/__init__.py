"""The kernels by family: each module says what its operators launch."""
