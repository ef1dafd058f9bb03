"""Reads programs that were saved with an older version of an operator."""

from typing import Any


def rename_factor(desc: dict[str, Any], from_version: int) -> dict[str, Any]:
    """Return the description of version 1, whose scale was called factor, as one of version 2."""
    attrs = dict(desc["attrs"])
    attrs["scale"] = attrs.pop("factor")
    return {**desc, "attrs": attrs}
