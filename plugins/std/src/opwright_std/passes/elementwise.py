"""``fuse_elementwise``: fuse chains of element-wise operators into one loop.

An intermediate tensor costs a write and a read, and every step costs a call. A tree that ends in
one operator is fused if its other operators have the same shape and dtype, and no readers outside
the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from opwright.op import OpDefinition
from opwright.rewriting import Graph, LoweredOp, Uses, Value, make_if_served

CHAIN = "std.elementwise_chain"

# Maximum numbers of inputs and functions in one step, as in the kernel.
MAX_INPUTS = 16
MAX_FUNCTIONS = 32

Numbers = tuple[float, float]


class Kind(NamedTuple):
    """The representation of an operator in a chain.

    Attributes
    ----------
    inputs : tuple of str
        Slots that the function reads.
    output : str
    parameters : callable or None
        Two numbers from the attributes, None without parameters.
    """

    inputs: tuple[str, ...]
    output: str = "out"
    parameters: Callable[[Mapping[str, Any]], Numbers] | None = None


def _numbers(first: str, second: str | None = None) -> Callable[[Mapping[str, Any]], Numbers]:
    """Return a function that extracts these attributes."""

    def take(attrs: Mapping[str, Any]) -> Numbers:
        return attrs[first], attrs[second] if second else 0.0

    return take


def _approximate(attrs: Mapping[str, Any]) -> Numbers:
    return float(attrs["approximate"] == "tanh"), 0.0


def _kinds() -> dict[str, Kind]:
    unary = (
        "abs negative sign square exp log sqrt reciprocal erf relu sigmoid tanh softplus silu "
        "expm1 log1p log2 rsqrt sin cos tan asin acos atan sinh cosh ceil floor round "
        "relu6 hard_swish log_sigmoid softsign mish tanh_shrink selu erfc"
    )
    binary = (
        "add subtract multiply divide maximum minimum squared_difference atan2 atan2_derivative "
        "mod floor_divide copysign"
    )
    of_x = (
        "abs_grad square_grad erf_grad silu_grad asin_grad acos_grad atan_grad "
        "hard_swish_grad softsign_grad mish_grad tanh_shrink_grad selu_grad"
    )
    of_out = (
        "sqrt_grad reciprocal_grad relu_grad sigmoid_grad tanh_grad softplus_grad "
        "rsqrt_grad tan_grad relu6_grad log_sigmoid_grad"
    )
    kinds = {name: Kind(("x",)) for name in unary.split()}
    kinds |= {name: Kind(("x", "y")) for name in binary.split()}
    kinds |= {name: Kind(("x", "out_grad"), "x_grad") for name in of_x.split()}
    kinds |= {name: Kind(("out", "out_grad"), "x_grad") for name in of_out.split()}
    kinds["clip"] = Kind(("x",), "out", _numbers("min", "max"))
    kinds["clip_grad"] = Kind(("x", "out_grad"), "x_grad", _numbers("min", "max"))
    kinds["scale"] = Kind(("x",), "out", _numbers("scale", "bias"))
    kinds["gelu"] = Kind(("x",), "out", _approximate)
    kinds["gelu_grad"] = Kind(("x", "out_grad"), "x_grad", _approximate)
    kinds["elu"] = kinds["leaky_relu"] = Kind(("x",), "out", _numbers("alpha"))
    kinds["elu_grad"] = Kind(("x", "out_grad"), "x_grad", _numbers("alpha"))
    kinds["hard_sigmoid"] = Kind(("x",), "out", _numbers("alpha", "beta"))
    kinds["hard_sigmoid_grad"] = Kind(("out", "out_grad"), "x_grad", _numbers("alpha", "beta"))
    for name, attrs in (
        *(("hard_shrink", ("threshold",)), ("soft_shrink", ("threshold",))),
        *(("thresholded_relu", ("alpha",)), ("celu", ("alpha",)), ("swish", ("beta",))),
        *(("soft_relu", ("threshold",)), ("stanh", ("scale_a", "scale_b"))),
    ):
        kinds[name] = Kind(("x",), "out", _numbers(*attrs))
        kinds[f"{name}_grad"] = Kind(("x", "out_grad"), "x_grad", _numbers(*attrs))
    kinds["pow_scalar"] = Kind(("x",), "out", _numbers("exponent"))
    kinds["increment"] = Kind(("x",), "out", _numbers("step"))
    kinds["prelu"] = Kind(("x", "weight"))
    kinds["leaky_relu_grad"] = Kind(("out", "out_grad"), "x_grad", _numbers("alpha"))
    return kinds


KINDS = _kinds()


Places = tuple[list[int], int, Callable[[Mapping[str, Any]], Numbers] | None]
"""Indices of the input slots and of the output slot of a kind, and its ``parameters``."""

Steps = dict[LoweredOp | None, tuple[tuple[Value, ...], Value, Numbers]]
"""Inputs, output and parameters of the function of each element-wise operator."""

NO_NUMBERS: Numbers = (0.0, 0.0)


def fuse_elementwise(graph: Graph) -> None:
    """Fuse every tree of two or more element-wise operators into ``std.elementwise_chain``."""
    ops = [op for op in graph.ops if op.type in KINDS] if len(graph.ops) > 1 else []
    chain = graph.definition(CHAIN) if len(ops) > 1 and graph.is_served(CHAIN) else None
    if chain is None:
        return
    left = _steps(ops, chain.proto.inputs[0].dtypes)
    if len(left) < 2:
        return
    edit = graph.edit()
    uses = graph.uses()
    for op in reversed(ops):
        if op not in left:
            continue
        tree = _grow(op, uses, left)
        made = _make(graph, tree, left) if len(tree) > 1 else None
        if made is not None and edit.fuse(tree, [made]):
            for taken in tree:
                del left[taken]
    edit.apply()


def _steps(ops: Sequence[LoweredOp], dtypes: Sequence[str]) -> Steps:
    """Return the dtypes for which a kind's inputs and output are all supported."""
    found: Steps = {}
    places = {definition: _places(definition) for definition in {op.definition for op in ops}}
    for op in ops:
        known = places[op.definition]
        if known is None:
            continue
        read, written, numbers = known
        inputs = op.inputs[read[0]]
        if len(read) > 1:  # no kind reads more than two
            inputs += op.inputs[read[1]]
        outputs = op.outputs[written]
        if outputs and len(inputs) == len(read) and outputs[0].meta.dtype in dtypes:
            found[op] = inputs, outputs[0], numbers(op.attrs) if numbers else NO_NUMBERS
    return found


def _places(definition: OpDefinition) -> Places | None:
    """Return the slot indices of a kind, or None if the operator lacks one of the kind's slots."""
    kind, slots = KINDS[definition.op_type], definition.input_index
    if not slots.keys() >= set(kind.inputs) or kind.output not in definition.output_index:
        return None
    read = [slots[slot] for slot in kind.inputs]
    return read, definition.output_index[kind.output], kind.parameters


def _grow(last: LoweredOp, uses: Uses, left: Steps) -> list[LoweredOp]:
    """Return the operators that can be fused with the last operator, in order."""
    reads, out, _ = left[last]
    meta = out.meta
    tree = {last}
    inputs = set(reads)
    waiting = list(reads)
    stays_within = uses.stays_within
    refused: dict[Value, None] = {}
    while waiting and len(tree) < MAX_FUNCTIONS:
        value = waiting.pop()
        op = value.op
        step = left.get(op)
        if step is None or op is None or op in tree:
            continue
        if value.source is not None or (value.meta is not meta and value.meta != meta):
            continue
        reads = step[0]
        n_inputs = len(inputs) - 1 + len(reads)
        if n_inputs > MAX_INPUTS:  # unless some inputs are equal
            n_inputs = len(inputs.union(reads)) - 1
        if n_inputs > MAX_INPUTS or not stays_within(value, tree):
            refused[value] = None
            continue
        tree.add(op)
        inputs.discard(value)
        inputs.update(reads)
        waiting += reads
        if refused:  # an outside reader may have joined, or an input become a result
            waiting += refused
            refused.clear()
    return sorted(tree, key=uses.position.__getitem__)


def _make(graph: Graph, tree: list[LoweredOp], steps: Steps) -> LoweredOp | None:
    reads: list[Value] = []
    results: list[Value] = []
    parameters: list[float] = []
    for op in tree:
        read, out, numbers = steps[op]
        reads += read
        results.append(out)
        parameters += numbers
    inner = set(results)
    inputs = [value for value in dict.fromkeys(reads) if value not in inner]
    places = {value: place for place, value in enumerate((*inputs, *results))}
    attrs = {
        "functions": tuple([op.type for op in tree]),
        "operands": tuple(map(places.__getitem__, reads)),
        "parameters": tuple(parameters),
    }
    written = {"out": results[-1:]}
    return make_if_served(graph, CHAIN, {"x": inputs}, written, attrs, tree[-1])
