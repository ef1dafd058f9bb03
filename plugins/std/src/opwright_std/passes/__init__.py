"""Graph rewrites valid on every device, from the semantics of standard operators.

Fusions create an operator of `opwright_std.plan_ops` if the device has a kernel that accepts it;
see each module.
"""
