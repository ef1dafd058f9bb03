"""A parsed model: graph, functions, opsets, and the limits of its translation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from opwright_onnx.errors import ModelError
from opwright_onnx.messages import FunctionProto, GraphProto, ModelProto
from opwright_onnx.translate.schemas import newest_opset

MIN_BUDGET: Final = 10_000
BUDGET_FOR_NODE: Final = 64
"""The maximum number of nodes after functions and loops are unrolled: MIN_BUDGET, or
BUDGET_FOR_NODE per node of the file if that is greater."""

MAX_DEPTH: Final = 64
"""The maximum depth of nested functions and graphs."""

MIN_OPSET: Final = 7
"""The oldest opset of nodes whose operator has changed since; some rows also support older
versions."""


class Model(NamedTuple):
    """The parts of a model that translation reads."""

    proto: ModelProto
    folder: str | None
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], FunctionProto]
    trainable: bool
    inputs: Mapping[str, Any]
    shapes: Mapping[str, tuple[int | None, ...]]
    budget: int
    weights: Mapping[int, memoryview]
    """The bytes of graph initializers that were stripped from `proto`, by position."""


def _count_nodes(graph: GraphProto) -> int:
    inner = (a.g for node in graph.node for a in node.attribute if a.HasField("g"))
    return len(graph.node) + sum(map(_count_nodes, inner))


def read_opsets(imports: Any, who: str) -> dict[str, int]:
    """Return the version of each domain, or raise ModelError for an invalid version."""
    opsets: dict[str, int] = {}
    for entry in imports:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        opsets[domain] = entry.version
        bound = newest_opset(entry.version) if domain == "" else 2**31 - 1
        if not 1 <= entry.version <= bound:
            raise ModelError(
                f"{who}: the opset of {domain or 'ai.onnx'!r} must be in [1, {bound}], got "
                f"{entry.version}; install a newer onnx"
            )
    return opsets


def make_model(
    proto: ModelProto,
    folder: str | None,
    trainable: bool,
    inputs: Mapping[str, Any],
    shapes: Mapping[str, tuple[int | None, ...]],
    weights: Mapping[int, memoryview],
) -> Model:
    """Check the opsets and functions of a model and return it."""
    opsets = read_opsets(proto.opset_import, "model")
    functions = {(f.domain, f.name, f.overload): f for f in proto.functions}
    if not opsets and proto.graph.node:
        raise ModelError("model: opset_import must name a version, got none")
    n_nodes = _count_nodes(proto.graph) + sum(len(f.node) for f in proto.functions)
    budget = max(MIN_BUDGET, BUDGET_FOR_NODE * n_nodes)
    given = dict(inputs), dict(shapes)
    return Model(proto, folder, opsets, functions, trainable, *given, budget, weights)
