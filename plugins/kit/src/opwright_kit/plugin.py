"""Registers the tools for the core and other packages by name, without importing them."""

from __future__ import annotations

from opwright import plugin

TOOLS = ("DrawnLayer", "LayerDrawing", "draw", "frame", "prepare_isolated", "profile")
"""Public names of `opwright_kit`."""


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Name the tools."""
    for name in TOOLS:
        registry.add("kit", name, f"opwright_kit:{name}")
