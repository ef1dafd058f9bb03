"""Registers opwright-jax objects by name, without importing them.

This package is separate from `opwright_jax`, which imports JAX to register its custom call, because
discovery must not import JAX.
"""

from __future__ import annotations

from opwright import plugin

__all__ = ["opwright_annexes"]


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Register the rule ``jax`` of ``opwright check`` by name."""
    registry.add("rule", "jax", "opwright_jax.checking:check_operator")


def __dir__() -> list[str]:
    return sorted(__all__)
