"""Reads programs that were saved with an older version of an operator."""

from typing import Any


def rename_factor(desc: dict[str, Any], from_version: int) -> dict[str, Any]:
    """Convert a description of version 1, in which scale was called factor, to version 2."""
    attrs = dict(desc["attrs"])
    attrs["scale"] = attrs.pop("factor")
    return {**desc, "attrs": attrs}
