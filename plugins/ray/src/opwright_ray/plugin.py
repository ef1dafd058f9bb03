"""The table of what opwright-ray provides; it only names things."""

from __future__ import annotations

from opwright import plugin


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Name what ``opwright doctor`` runs."""
    registry.add("doctor", "ray", "opwright_ray.doctor:examine")
