"""The kernels by operator family; each module defines the launches of its operators."""
