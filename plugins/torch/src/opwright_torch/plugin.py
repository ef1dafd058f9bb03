"""The table of what opwright-torch provides; it only names things."""

from __future__ import annotations

from opwright import plugin

SUBJECTS = (
    "activations",
    "comparisons",
    "convolutions",
    "creation",
    "indexing",
    "losses",
    "normalization",
    "pointwise",
    "pooling",
    "products",
    "random",
    "reductions",
    "resizing",
    "shapes",
    "slices",
)


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Name the tables from ATen operators to what writes ours."""
    for subject in SUBJECTS:
        registry.add("torch", f"aten.{subject}", f"opwright_torch.aten.{subject}:ROWS")
