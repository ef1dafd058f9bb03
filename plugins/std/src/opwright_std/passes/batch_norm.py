"""``fuse_batch_norm``: fuse batch normalization, residual and activation.

Normalization, residual addition and relu are memory-bound: when fused, each array is read and
written once, in the gradients as well. Without a residual, the gradient reads neither the output of
relu nor an intermediate array, because the input of relu is recomputed from the images.

In mixed precision images are cast to float32 before the normalization, and back after it. The fused
operator reads and writes images in 16 bits, and saves nothing in float32 for the gradient.
"""

from __future__ import annotations

from opwright.rewriting import (
    Graph,
    LoweredOp,
    Value,
    input_of,
    make_if_served,
    other_input,
    output_of,
    writer_of,
)
from opwright_std.plan_ops.batch_norm import ACTIVATIONS

FUSED = "std.batch_norm_activation"
INPUTS = ("x", "scale", "bias", "mean", "variance")
SAVED = ("saved_mean", "saved_inv_std")
STATISTICS = ("mean_out", "variance_out", *SAVED)
GRADIENT_INPUTS = ("x", "scale", *SAVED)
GRADIENTS = ("x_grad", "scale_grad", "bias_grad")
HALVES = "std.batch_norm_halves"
CASTS = ("cast", "cast_like")


class _Chain:
    """A normalization and the operators after it, each the only reader of the previous one.

    Attributes
    ----------
    ops : list of LoweredOp
        The operators in order, beginning with the normalization.
    out : Value
        The output of the last operator.
    residual : Value or None
        The added value.
    activation : str
    """

    def __init__(self, ops: list[LoweredOp], out: Value) -> None:
        self.ops = ops
        self.out = out
        self.residual: Value | None = None
        self.activation = ""


def fuse_batch_norm(graph: Graph) -> None:
    """Fuse operators into ``std.batch_norm_activation`` and its gradient."""
    if graph.is_served(HALVES):
        _take_casts(graph)
    norms = graph.of_type("batch_norm", HALVES)
    if not graph.is_served(FUSED):
        return
    edit = graph.edit()
    taken: set[LoweredOp] = set()
    # Operators are visited backward, so if two normalizations are added, the later one fuses the
    # sum.
    for norm in reversed(norms):
        chain = _follow(graph, norm, taken)
        made = None if chain is None else _make(graph, chain)
        if chain is not None and made is not None and edit.fuse(chain.ops, [made]):
            taken.update(chain.ops)
    edit.apply()
    _fuse_gradients(graph)


def _follow(graph: Graph, norm: LoweredOp, taken: set[LoweredOp]) -> _Chain | None:
    """Return a normalization with the fusible operators after it, or None if there are none."""
    out = output_of(norm, "out")
    if out is None:
        return None
    chain = _Chain([norm], out)
    while not chain.activation:
        reader = graph.uses().only_reader(chain.out)
        made = None if reader is None or reader in taken else output_of(reader, "out")
        if reader is None or made is None or made.meta != chain.out.meta:
            break
        if reader.type in ACTIVATIONS:
            chain.activation = reader.type
        elif reader.type == "add" and chain.residual is None:
            chain.residual = other_input(reader, chain.out)
            if chain.residual is None or chain.residual.meta != made.meta:
                return None
        else:
            break
        chain.ops.append(reader)
        chain.out = made
    return chain if len(chain.ops) > 1 else None


def _make(graph: Graph, chain: _Chain) -> LoweredOp | None:
    norm = chain.ops[0]
    inputs = {slot: input_of(norm, slot) for slot in INPUTS} | {"residual": chain.residual}
    outputs = {slot: output_of(norm, slot) for slot in STATISTICS} | {"out": chain.out}
    attrs = {**norm.attrs, "activation": chain.activation}
    kind = HALVES if norm.type == HALVES else FUSED
    return make_if_served(graph, kind, inputs, outputs, attrs, norm)


def _take_casts(graph: Graph) -> None:
    """Make normalizations and their gradients read and write images in 16 bits."""
    for op_type, slot, make in (
        ("batch_norm", "out", _make_narrow),
        ("batch_norm_grad", "x_grad", _make_narrow_gradient),
    ):
        edit = graph.edit()
        for norm in graph.of_type(op_type):
            behind, source = _cast_behind(graph, norm, slot), _source_of_cast(norm, "x")
            if behind is None or source is None:
                continue
            made = make(graph, norm, behind, source)
            if made is not None:
                edit.fuse([norm, behind], [made])
        edit.apply()


def _source_of_cast(norm: LoweredOp, slot: str) -> Value | None:
    """Return the source of the cast in a slot, or None if there is no cast."""
    cast = writer_of(input_of(norm, slot), *CASTS)
    return None if cast is None else input_of(cast, "x")


def _cast_behind(graph: Graph, norm: LoweredOp, slot: str) -> LoweredOp | None:
    """Return the cast that is the only reader of an output, or None if there is none."""
    written = output_of(norm, slot)
    reader = None if written is None else graph.uses().only_reader(written)
    return reader if reader is not None and reader.type in CASTS else None


def _make_narrow(
    graph: Graph, norm: LoweredOp, behind: LoweredOp, source: Value
) -> LoweredOp | None:
    inputs = {slot: input_of(norm, slot) for slot in INPUTS} | {"x": source}
    outputs = {slot: output_of(norm, slot) for slot in STATISTICS}
    outputs["out"] = output_of(behind, "out")
    attrs = {**norm.attrs, "activation": ""}
    return make_if_served(graph, HALVES, inputs, outputs, attrs, norm)


def _make_narrow_gradient(
    graph: Graph, norm: LoweredOp, behind: LoweredOp, source: Value
) -> LoweredOp | None:
    inputs = {slot: input_of(norm, slot) for slot in GRADIENT_INPUTS} | {"x": source}
    inputs["out_grad"] = _source_of_cast(norm, "out_grad")
    if inputs["out_grad"] is None:
        return None
    outputs = {slot: output_of(norm, slot) for slot in GRADIENTS}
    outputs["x_grad"] = output_of(behind, "out")
    attrs = {"training": norm.attrs["training"], "activation": ""}
    return make_if_served(graph, f"{HALVES}_grad", inputs, outputs, attrs, norm)


def _fuse_gradients(graph: Graph) -> None:
    """Fuse the gradients of a normalization and of the activation after it."""
    edit = graph.edit()
    for norm in graph.of_type("batch_norm_grad", f"{HALVES}_grad"):
        for kind in ACTIVATIONS:
            behind = writer_of(input_of(norm, "out_grad"), f"{kind}_grad")
            made = None if behind is None else _make_gradient(graph, norm, behind, kind)
            if behind is not None and made is not None:
                edit.fuse([behind, norm], [made], at=behind)
    edit.apply()


def _make_gradient(
    graph: Graph, norm: LoweredOp, behind: LoweredOp, activation: str
) -> LoweredOp | None:
    between, activated = output_of(behind, "x_grad"), input_of(behind, "out")
    if between is None or between is not input_of(norm, "out_grad"):
        return None
    inputs = {slot: input_of(norm, slot) for slot in GRADIENT_INPUTS}
    inputs["out_grad"] = input_of(behind, "out_grad")
    outputs = {slot: output_of(norm, slot) for slot in GRADIENTS}
    fused = HALVES if norm.type == f"{HALVES}_grad" else FUSED
    forward = writer_of(activated, fused)
    is_known = forward is not None and _is_computed_from(inputs, forward)
    if forward is not None and is_known and graph.uses().only_reader(between) is norm:
        inputs["bias"] = input_of(forward, "bias")
    else:
        inputs["out"], outputs["residual_grad"] = activated, between
    attrs = {"training": norm.attrs["training"], "activation": activation}
    return make_if_served(graph, f"{fused}_grad", inputs, outputs, attrs, norm)


def _is_computed_from(inputs: dict[str, Value | None], forward: LoweredOp) -> bool:
    """Return whether the activation's input can be recomputed; with a residual it cannot."""
    return (
        input_of(forward, "residual") is None
        and all(input_of(forward, slot) is inputs[slot] for slot in ("x", "scale"))
        and all(output_of(forward, slot) is inputs[slot] for slot in SAVED)
    )
