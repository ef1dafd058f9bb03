"""The table of what opwright-torch provides; it only names things."""

from __future__ import annotations

from opwright import plugin

SUBJECTS = (
    "activations",
    "convolutions",
    "losses",
    "normalization",
    "pointwise",
    "pooling",
    "products",
    "random",
    "resizing",
    "shapes",
)


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Name the tables from ATen operators to what writes ours."""
    for subject in SUBJECTS:
        registry.add("torch", f"aten.{subject}", f"opwright_torch.aten.{subject}:ROWS")
