"""The table of opwright-jax's objects; it only names them.

It is apart from `opwright_jax`, which imports JAX to register its custom call: discovery must not.
"""

from __future__ import annotations

from opwright import plugin

__all__ = ["opwright_annexes"]


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Name a rule of the kit."""
    registry.add("rule", "jax", "opwright_jax.checking:check_operator")


def __dir__() -> list[str]:
    return sorted(__all__)
