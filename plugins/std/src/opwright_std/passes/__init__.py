"""Rewritings that are right on every device, for they know what standard operators mean.

What is fused is an operator of `opwright_std.plan_ops`, where the device has a kernel that accepts
it; see each module.
"""
