"""The kernels by family: each module defines the launches of its operators."""
