"""``fuse_elementwise``: element-wise operators that feed each other become one loop.

A tensor between two of them is written and read once more than arithmetic needs, and every step
costs a call. What is fused is a tree that ends in one operator: the others have its shape and
dtype, and nobody outside the tree reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from opwright.rewriting import Graph, LoweredOp, Uses, Value

from .slots import input_of, output_of

# Inputs and functions of one step; the kernel has room for as many.
MAX_INPUTS = 16
MAX_FUNCTIONS = 32

Numbers = tuple[float, float]


class Kind(NamedTuple):
    """How an operator is written in a chain.

    Attributes
    ----------
    inputs : tuple of str
        Slots that the function reads.
    output : str
    parameters : callable
        Two numbers of the attributes.
    """

    inputs: tuple[str, ...]
    output: str = "out"
    parameters: Callable[[Mapping[str, Any]], Numbers] = lambda attrs: (0.0, 0.0)


def _alpha(attrs: Mapping[str, Any]) -> Numbers:
    return attrs["alpha"], 0.0


def _bounds(attrs: Mapping[str, Any]) -> Numbers:
    return attrs["min"], attrs["max"]


def _line(attrs: Mapping[str, Any]) -> Numbers:
    return attrs["scale"], attrs["bias"]


def _approximate(attrs: Mapping[str, Any]) -> Numbers:
    return float(attrs["approximate"] == "tanh"), 0.0


def _kinds() -> dict[str, Kind]:
    unary = "abs negative sign square exp log sqrt reciprocal erf relu sigmoid tanh softplus silu"
    binary = "add subtract multiply divide maximum minimum"
    of_x = "abs_grad square_grad erf_grad silu_grad"
    of_out = "sqrt_grad reciprocal_grad relu_grad sigmoid_grad tanh_grad softplus_grad"
    kinds = {name: Kind(("x",)) for name in unary.split()}
    kinds |= {name: Kind(("x", "y")) for name in binary.split()}
    kinds |= {name: Kind(("x", "out_grad"), "x_grad") for name in of_x.split()}
    kinds |= {name: Kind(("out", "out_grad"), "x_grad") for name in of_out.split()}
    kinds["clip"] = Kind(("x",), "out", _bounds)
    kinds["clip_grad"] = Kind(("x", "out_grad"), "x_grad", _bounds)
    kinds["scale"] = Kind(("x",), "out", _line)
    kinds["gelu"] = Kind(("x",), "out", _approximate)
    kinds["gelu_grad"] = Kind(("x", "out_grad"), "x_grad", _approximate)
    for name in ("elu", "leaky_relu"):
        kinds[name] = Kind(("x",), "out", _alpha)
        kinds[f"{name}_grad"] = Kind(("out", "out_grad"), "x_grad", _alpha)
    return kinds


KINDS = _kinds()
_FLOATS = ("float32", "float64")


def fuse_elementwise(graph: Graph) -> None:
    """Make ``cpu.elementwise_chain`` of every tree of two and more element-wise operators."""
    edit = graph.edit()
    uses = graph.uses()
    taken: set[LoweredOp] = set()
    for op in reversed(graph.of_type(*KINDS)):
        if op in taken:
            continue
        tree = _grow(op, uses, taken)
        made = _make(graph, tree) if len(tree) > 1 else None
        if made is not None and edit.fuse(tree, [made]):
            taken.update(tree)
    edit.apply()


def _read_by(op: LoweredOp) -> list[Value] | None:
    """Return the values that the function of an operator reads, None where one is absent."""
    values = [input_of(op, slot) for slot in KINDS[op.type].inputs]
    return None if None in values else values  # type: ignore[return-value]


def _grow(last: LoweredOp, uses: Uses, taken: set[LoweredOp]) -> list[LoweredOp]:
    """Return the operators that may be applied together with the last one, in their order."""
    out = output_of(last, KINDS[last.type].output)
    if out is None or out.meta.dtype not in _FLOATS or _read_by(last) is None:
        return [last]
    tree = {last}
    inputs = set(_read_by(last) or ())
    waiting = list(inputs)
    while waiting:
        value = waiting.pop()
        op = value.op
        if op is None or op.type not in KINDS or value.meta != out.meta:
            continue
        if op in tree or op in taken:
            continue
        reads = _read_by(op)
        if reads is None or not _stays_inside(value, tree, uses):
            continue
        wider = inputs - {value} | set(reads)
        if len(wider) > MAX_INPUTS or len(tree) == MAX_FUNCTIONS:
            continue
        tree.add(op)
        waiting += wider  # again those that had a reader outside: it may have come in
        inputs = wider
    return sorted(tree, key=uses.position.__getitem__)


def _stays_inside(value: Value, tree: set[LoweredOp], uses: Uses) -> bool:
    """Whether nobody but operators of the tree reads a value."""
    if value.source is not None or uses.is_visible(value):
        return False
    return all(reader in tree for reader in uses.readers(value))


def _make(graph: Graph, tree: list[LoweredOp]) -> LoweredOp | None:
    if graph.definition("cpu.elementwise_chain") is None:
        return None
    made_by = {output_of(op, KINDS[op.type].output): op for op in tree}
    inputs: dict[Value, int] = {}
    for op in tree:
        for value in _read_by(op) or ():
            if value not in made_by:
                inputs.setdefault(value, len(inputs))
    places = {value: len(inputs) + i for i, value in enumerate(made_by)} | inputs
    attrs = {
        "functions": [op.type for op in tree],
        "operands": [places[value] for op in tree for value in _read_by(op) or ()],
        "parameters": [
            float(number) for op in tree for number in KINDS[op.type].parameters(op.attrs)
        ],
    }
    last = tree[-1]
    out = output_of(last, KINDS[last.type].output)
    if out is None:
        return None
    made = graph.make("cpu.elementwise_chain", {"x": list(inputs)}, {"out": out}, attrs, like=last)
    return made if graph.has_kernel(made) else None
