"""Rewritings that are right on every device, for they know what standard operators mean.

What is fused is an operator of the device's own package, ``<device>.<name>``, where it brings one
with these slots and attributes and a kernel accepts it; see each module.
"""
