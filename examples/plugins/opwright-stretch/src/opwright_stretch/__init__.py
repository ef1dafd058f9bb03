"""The operator ``sky.stretch`` for opwright."""

from opwright import plugin


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Name the operator, whose module is imported at its first use."""
    registry.add("sky.stretch", "opwright_stretch.stretch:STRETCH")
