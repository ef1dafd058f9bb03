"""Graph rewrites that follow from the semantics of standard operators, valid on every device.

Fusions create an operator of `opwright_std.plan_ops` if the device has a kernel that accepts it;
see each module.
"""
