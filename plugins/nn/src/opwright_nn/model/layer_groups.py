"""Groups operators by layer, by their output names: the output of a layer is ``<name>_out``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import opwright as ow

_OUTPUT = re.compile(r"(.+)_out(?:_\d+)?(?:/.*)?$")
_PARAMETER = re.compile(r"(.+)_[^_]+(?:_[ih]h)?_param(?:_|$)")


class LayerGroup(NamedTuple):
    """Consecutive operators of one layer."""

    name: str
    ops: tuple[ow.Operator, ...]


def find_layer_groups(ops: Sequence[ow.Operator]) -> list[LayerGroup]:
    """Return the operators by layer, in order.

    A layer that appends other layers, as ``enc`` appends ``enc_norm_0``, includes their operators
    and those between them. An operator without a layer is a separate group, named after its output.
    """
    groups: list[LayerGroup] = []
    for op in ops:
        name = _name_of(op)
        start = _find_start(groups, name)
        inner = [item for group in groups[start:] for item in group.ops]
        groups[start:] = [LayerGroup(name, (*inner, op))]
    return groups


def layer_of_parameter(name: str) -> str:
    """Return the layer that created a parameter, or the parameter name if the layer is unknown."""
    match = _PARAMETER.match(name)
    return match[1] if match else name


def _name_of(op: ow.Operator) -> str:
    output = next(iter(op.output_names()), op.type)
    match = _OUTPUT.match(output)
    return match[1] if match else output.partition("/")[0]


def _find_start(groups: Sequence[LayerGroup], name: str) -> int:
    """Return the index of the layer's first group, or the number of groups if it has none."""
    if groups and groups[-1].name == name:
        return len(groups) - 1
    for number, group in enumerate(groups):
        rest = group.name.removeprefix(f"{name}_")
        if rest != group.name and not rest.isdigit():
            return number
    return len(groups)
