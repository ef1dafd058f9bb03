"""``fuse_packed_attention``: lets attention read heads directly from the output of a layer.

Attention reads its heads one after another, but layers write them side by side. The pass avoids the
copies that split and transpose arrays before attention, and transpose them back after attention and
its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping

from opwright.rewriting import (
    Edit,
    Graph,
    LoweredOp,
    Value,
    input_of,
    make_if_served,
    output_of,
    writer_of,
)

HEADS_APART = (0, 2, 1, 3)
"""Transposes [batch, time, heads, size] to [batch, heads, time, size], and back."""

PARTS = ("q", "k", "v")

STACKED = (2, 0, 3, 1, 4)
"""Transposes [batch, time, 3, heads, size] to [3, batch, heads, time, size]: q, k and v."""

UNSTACKED = (1, 3, 0, 2, 4)
"""The inverse of `STACKED`."""


def fuse_packed_attention(graph: Graph) -> None:
    """Insert ``cpu.packed_attention_grad``, then ``cpu.packed_attention``."""
    edit = graph.edit()
    for gradient in graph.of_type("scaled_dot_product_attention_grad"):
        _fuse_gradient(graph, edit, gradient)
    edit.apply()
    edit = graph.edit()
    for attention in graph.of_type("scaled_dot_product_attention"):
        _fuse_attention(graph, edit, attention)
    edit.apply()


def _fuse_attention(graph: Graph, edit: Edit, attention: LoweredOp) -> None:
    before, out = _parts_of(attention), output_of(attention, "out")
    behind = None if out is None else _transposed(graph, out)
    if before is None or behind is None:
        return
    qkv, ops = before
    inputs = {"qkv": qkv, "mask": input_of(attention, "mask")}
    outputs = {
        "out": output_of(behind, "out"),
        "log_sum_exp": output_of(attention, "log_sum_exp"),
    }
    made = _make(graph, "cpu.packed_attention", inputs, outputs, attention)
    if made is not None:
        edit.fuse([*ops, attention, behind], [made])


def _fuse_gradient(graph: Graph, edit: Edit, gradient: LoweredOp) -> None:
    before, out = _parts_of(gradient), input_of(gradient, "out")
    behind = None if out is None else _transposed(graph, out)
    apart = writer_of(input_of(gradient, "out_grad"), "transpose")
    joined = _joined_gradients(graph, gradient)
    if before is None or behind is None or apart is None or joined is None:
        return
    if tuple(apart.attrs["axes"]) != HEADS_APART:
        return
    inputs = {
        "qkv": before[0],
        "mask": input_of(gradient, "mask"),
        "out": output_of(behind, "out"),
        "log_sum_exp": input_of(gradient, "log_sum_exp"),
        "out_grad": input_of(apart, "x"),
    }
    outputs = {"qkv_grad": output_of(joined[-1], "out")}
    made = _make(graph, "cpu.packed_attention_grad", inputs, outputs, gradient)
    if made is not None:
        edit.fuse([apart, gradient, *joined], [made])


Slots = Mapping[str, Value | None]


def _make(
    graph: Graph, op_type: str, inputs: Slots, outputs: Slots, like: LoweredOp
) -> LoweredOp | None:
    q = input_of(like, "q")
    if q is None or any(like.attrs.get(name) for name in ("softcap", "window", "from_end")):
        return None
    attrs = {"heads": q.meta.shape[1], "causal": like.attrs["causal"]}
    if like.attrs.get("scale") is not None:
        attrs["scale"] = like.attrs["scale"]
    return make_if_served(graph, op_type, inputs, outputs, attrs, like)


def _own(value: Value | None) -> Value | None:
    """Return the value that a view refers to; return any other value unchanged."""
    return value if value is None else value.source or value


def _parts_of(attention: LoweredOp) -> tuple[Value, list[LoweredOp]] | None:
    """Return queries, keys and values side by side, and the operators that split this array."""
    return _unstacked_parts(attention) or _split_parts(attention)


def _unstacked_parts(attention: LoweredOp) -> tuple[Value, list[LoweredOp]] | None:
    parts = [input_of(attention, slot) for slot in PARTS]
    unstack = writer_of(parts[0], "unstack")
    if unstack is None or unstack.attrs["axis"] != 0 or list(unstack.outputs[0]) != parts:
        return None
    transpose = writer_of(input_of(unstack, "x"), "transpose")
    qkv = None if transpose is None else input_of(transpose, "x")
    if transpose is None or qkv is None or tuple(transpose.attrs["axes"]) != STACKED:
        return None
    return qkv, [transpose, unstack]


def _split_parts(attention: LoweredOp) -> tuple[Value, list[LoweredOp]] | None:
    transposes, splits = [], set()
    for place, slot in enumerate(PARTS):
        transpose = writer_of(input_of(attention, slot), "transpose")
        if transpose is None or tuple(transpose.attrs["axes"]) != HEADS_APART:
            return None
        part = input_of(transpose, "x")
        split = writer_of(_own(part), "split")
        if part is None or split is None or not _is_part(split, place, part):
            return None
        transposes.append(transpose)
        splits.add(split)
    if len(splits) != 1:
        return None
    split = splits.pop()
    return split.inputs[0][0], [split, *transposes]


def _is_part(split: LoweredOp, place: int, part: Value) -> bool:
    """Return whether a value consists of the heads in one third of [batch, time, columns]."""
    x, (parts,) = input_of(split, "x"), split.outputs
    if x is None or len(x.meta.shape) != 3 or len(parts) != len(PARTS):
        return False
    if split.attrs["axis"] not in (2, -1) or parts[place] is not _own(part):
        return False
    batch, time, columns = x.meta.shape
    shape = part.meta.shape
    return len(shape) == 4 and shape[:2] == (batch, time) and 3 * shape[2] * shape[3] == columns


def _transposed(graph: Graph, out: Value) -> LoweredOp | None:
    """Return the transpose that puts the heads of a result of attention side by side."""
    for reader in graph.uses().readers(out):
        if reader.type == "transpose" and tuple(reader.attrs["axes"]) == HEADS_APART:
            return reader if input_of(reader, "x") is out else None
    return None


def _joined_gradients(graph: Graph, gradient: LoweredOp) -> list[LoweredOp] | None:
    """Return the operators that concatenate the three gradients in order."""
    return _stacked_gradients(graph, gradient) or _concatenated_gradients(graph, gradient)


def _stacked_gradients(graph: Graph, gradient: LoweredOp) -> list[LoweredOp] | None:
    grads = [output_of(gradient, f"{slot}_grad") for slot in PARTS]
    stack = None if grads[0] is None else graph.uses().only_reader(grads[0])
    if stack is None or stack.type != "stack" or stack.attrs["axis"] != 0:
        return None
    out = output_of(stack, "out")
    transpose = None if out is None else graph.uses().only_reader(out)
    if list(stack.inputs[0]) != grads or transpose is None or transpose.type != "transpose":
        return None
    if input_of(transpose, "x") is not out or tuple(transpose.attrs["axes"]) != UNSTACKED:
        return None
    return [stack, transpose]


def _concatenated_gradients(graph: Graph, gradient: LoweredOp) -> list[LoweredOp] | None:
    transposes: list[LoweredOp] = []
    for slot in PARTS:
        grad = output_of(gradient, f"{slot}_grad")
        transpose = None if grad is None else _transposed(graph, grad)
        if transpose is None:
            return None
        transposes.append(transpose)
    wanted = [output_of(transpose, "out") for transpose in transposes]
    if wanted[0] is None:
        return None
    for concat in graph.uses().readers(wanted[0]):
        if concat.type != "concat" or concat.attrs["axis"] not in (2, -1):
            continue
        (joined,) = concat.inputs
        if len(joined[0].meta.shape) == 3 and [_own(value) for value in joined] == wanted:
            return [*transposes, concat]
    return None
