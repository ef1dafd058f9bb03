"""``fuse_conv``: fuses element-wise operators into a convolution.

In inference, batch normalization multiplies each channel by a factor and adds a shift. Factor and
shift are applied, with a residual and an activation, while the elements are in registers. If the
plan does not write the parameters, the factor is folded into the weight and the shift into the
bias. The plan recomputes weight and bias when a parameter has changed. Otherwise, factor and shift
are computed in each run.
"""

from __future__ import annotations

from typing import Any

from opwright.rewriting import (
    Graph,
    LoweredOp,
    Value,
    input_of,
    make_if_served,
    other_input,
    output_of,
)
from opwright_cpu.plan_ops.convolution import ACTIVATIONS

NORMALIZED = ("float32", "bfloat16")
SHARED = ("strides", "paddings", "dilations", "groups", "data_format")


class _Chain:
    """A convolution and the operators after it, each of which is its predecessor's only reader.

    Attributes
    ----------
    ops : list of LoweredOp
        The operators in order, beginning with the convolution.
    out : Value
        The output of the last operator.
    norm : LoweredOp or None
        A batch normalization.
    residual : Value or None
        The added value.
    activation : str
    """

    def __init__(self, ops: list[LoweredOp], out: Value) -> None:
        self.ops = ops
        self.out = out
        self.norm: LoweredOp | None = None
        self.residual: Value | None = None
        self.activation = ""


def fuse_conv(graph: Graph) -> None:
    """Replace convolutions and the operators after them by ``cpu.conv2d_fused``."""
    if graph.definition("cpu.conv2d_fused") is None:
        return
    edit = graph.edit()
    taken: set[LoweredOp] = set()
    # The loop starts with the last convolution. If the results of two convolutions are added, the
    # later convolution computes the sum, because the earlier result is complete by then.
    for conv in reversed(graph.of_type("conv2d")):
        out = output_of(conv, "out")
        if out is None:
            continue
        chain = _follow(graph, _Chain([conv], out), taken)
        if len(chain.ops) > 1:
            made = _make(graph, chain)
            if made is not None and edit.fuse(chain.ops, made):
                taken.update(chain.ops)
    edit.apply()


def _follow(graph: Graph, chain: _Chain, taken: set[LoweredOp]) -> _Chain:
    """Extend a chain as long as the next operator is the only reader of the last result."""
    while not chain.activation:
        reader = graph.uses().only_reader(chain.out)
        if reader is None or reader in taken or not _takes(chain, reader):
            break
        out = output_of(reader, "out")
        if out is None or out.meta != chain.out.meta:
            break
        if reader.type == "batch_norm":
            chain.norm = reader
        elif reader.type == "add":
            chain.residual = other_input(reader, chain.out)
        else:
            chain.activation = reader.type
        chain.ops.append(reader)
        chain.out = out
    return chain


def _takes(chain: _Chain, reader: LoweredOp) -> bool:
    """Return whether an operator can extend the chain."""
    if reader.type == "batch_norm":
        first = chain.ops[0].attrs["data_format"] == "NCHW" and len(chain.ops) == 1
        return first and not reader.attrs["training"] and chain.out.meta.dtype in NORMALIZED
    if reader.type == "add":
        other = other_input(reader, chain.out)
        return chain.residual is None and other is not None and other.meta == chain.out.meta
    return reader.type in ACTIVATIONS


def _make(graph: Graph, chain: _Chain) -> list[LoweredOp] | None:
    conv, made = chain.ops[0], []
    inputs = {slot: input_of(conv, slot) for slot in ("x", "weight", "bias")}
    inputs["residual"] = chain.residual
    if chain.norm is not None:
        factors = _make_factors(graph, chain.norm)
        if factors is None:
            return None
        made.append(factors)
        scale, shift = (_written(factors, slot) for slot in ("factor", "shift"))
        folded = _fold(graph, conv, scale, shift)
        if folded is None:
            inputs |= {"scale": scale, "shift": shift}
        else:
            made += folded
            inputs["weight"] = _written(folded[0])
            inputs["bias"] = _written(folded[-1]) if len(folded) > 1 else shift
    attrs = {name: conv.attrs[name] for name in SHARED} | {"activation": chain.activation}
    given = {slot: value for slot, value in inputs.items() if value is not None}
    fused = _make_fused(graph, given, chain.out, attrs, conv)
    return None if fused is None else [*made, fused]


def _make_fused(
    graph: Graph, inputs: dict[str, Value], out: Value, attrs: dict[str, Any], conv: LoweredOp
) -> LoweredOp | None:
    """Return a fused convolution, or None if no kernel accepts it.

    The pass ``nhwc`` converts convolutions if their kernel prefers channels last. oneDNN supports
    every float32 convolution in both orders, so only the kernel for the preferred order is
    prepared, for both passes.
    """
    if out.meta.dtype == "float32" and attrs["data_format"] == "NCHW":
        images = {slot: value for slot, value in inputs.items() if slot in ("x", "residual")}
        last = {slot: _channels_last(graph, value) for slot, value in images.items()}
        written, others = {"out": _channels_last(graph, out)}, {**attrs, "data_format": "NHWC"}
        turned = graph.make("cpu.conv2d_fused", inputs | last, written, others, like=conv)
        if graph.has_preferring_kernel(turned, "data_format"):
            return graph.make("cpu.conv2d_fused", inputs, {"out": out}, attrs, like=conv)
    return make_if_served(graph, "cpu.conv2d_fused", inputs, {"out": out}, attrs, conv)


def _channels_last(graph: Graph, image: Value) -> Value:
    n, channels, height, width = image.meta.shape
    return graph.value(image.name, image.meta._replace(shape=(n, height, width, channels)))


def _make_factors(graph: Graph, norm: LoweredOp) -> LoweredOp | None:
    """Return the operator that computes factors and shifts from the statistics."""
    slots = ("scale", "bias", "mean", "variance")
    given = {slot: value for slot in slots if (value := input_of(norm, slot)) is not None}
    meta, name = given["scale"].meta._replace(dtype="float32"), given["scale"].name
    written = {slot: graph.value(f"{name}_{slot}", meta) for slot in ("factor", "shift")}
    for slot in ("mean_out", "variance_out"):
        value = output_of(norm, slot)
        if value is not None:
            written[slot] = value
    attrs = {"epsilon": norm.attrs["epsilon"]}
    return make_if_served(graph, "cpu.fold_batch_norm", given, written, attrs, norm)


def _fold(graph: Graph, conv: LoweredOp, scale: Value, shift: Value) -> list[LoweredOp] | None:
    """Return operators that scale weight and bias by a factor per filter and add the shift.

    Return None if an operand changes between runs or the weight is not float32.
    """
    weight, bias = input_of(conv, "weight"), input_of(conv, "bias")
    read = [value for value in (weight, bias, scale, shift) if value is not None]
    if weight is None or weight.meta.dtype != "float32" or not all(v.is_constant for v in read):
        return None
    filters = graph.view(scale, scale.meta._replace(shape=(weight.meta.shape[0], 1, 1, 1)))
    made = [_make_binary(graph, "multiply", weight, filters, conv)]
    if bias is not None:
        made.append(_make_binary(graph, "multiply", bias, scale, conv))
        if made[-1] is not None:
            made.append(_make_binary(graph, "add", _written(made[-1]), shift, conv))
    return None if None in made else [op for op in made if op is not None]


def _make_binary(graph: Graph, kind: str, x: Value, y: Value, like: LoweredOp) -> LoweredOp | None:
    out = graph.value(x.name, x.meta)
    return make_if_served(graph, kind, {"x": x, "y": y}, {"out": out}, {}, like)


def _written(op: LoweredOp, slot: str = "out") -> Value:
    """Return the value of an output slot, which must be present."""
    return op.output(slot)[0]
