"""Registrations of opwright-ray."""

from __future__ import annotations

from opwright import plugin


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Register the check of ``opwright doctor``."""
    registry.add("doctor", "ray", "opwright_ray.doctor:examine")
