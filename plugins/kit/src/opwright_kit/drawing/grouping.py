"""Finds which operators of a block belong to the same layer, by their variable names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from opwright.vocabulary import GRAD_SUFFIX
from opwright_kit.drawing.graph import BlockGraph, Node

_PARAMETER = re.compile(r"(.+)_[^_]+_param(?:_|$)")
_NUMBERED = re.compile(r"(.+?_\d+)(?:_|$)")


@dataclass(frozen=True, slots=True)
class Layer:
    """Operators that are drawn as one group.

    Attributes
    ----------
    name : str
        The prefix of its variable names, such as ``conv2d_1``.
    role : str
        ``"forward"``, ``"gradient"`` or ``"update"``, the same for all.
    members : tuple of int
        Numbers of its nodes, at least two, in the order of the block.
    """

    name: str
    role: str
    members: tuple[int, ...]


def find_layers(graph: BlockGraph) -> list[Layer]:
    """Return the layers of a block, by their first operator.

    A layer is a run of consecutive operators. So no path leaves a layer and returns to it through
    another layer, and each layer can be collapsed to one box.
    """
    numbers = [number for number, node in enumerate(graph.nodes) if node.op is not None]
    layers = []
    for (name, role), run in itertools.groupby(numbers, lambda n: _key(graph.nodes[n])):
        members = tuple(run)
        if name and len(members) > 1:
            layers.append(Layer(name, role, members))
    return layers


def _key(node: Node) -> tuple[str, str]:
    role = node.role()
    return ("" if role == "control" else _name_of(node, role), role)


def _name_of(node: Node, role: str) -> str:
    """Return the layer of an operator; for a gradient, the layer whose gradients it reads."""
    parameters = [read.name for read in node.reads if read.kind == "parameter"]
    written = [name for _, name, _ in node.writes]
    if role == "gradient":
        return _first([*(r.name for r in node.reads if GRAD_SUFFIX in r.name), *written])
    return _first([*parameters, *written])


def _first(names: Iterable[str]) -> str:
    for name in names:
        match = _PARAMETER.match(name) or _NUMBERED.match(name)
        if match:
            return match[1]
    return ""
