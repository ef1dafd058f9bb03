"""``fuse_gelu_fc``: fuses gelu with a following trained layer, without storing the result of gelu.

The layer multiplies each block of rows right after computing gelu. The weight gradient of the layer
recomputes these blocks, and the gradient of gelu is computed in the same pass over memory.
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


def fuse_gelu_fc(graph: Graph) -> None:
    """Fuse operators after ``gelu_grad`` into ``cpu.gelu_fc_grad``, then create ``cpu.gelu_fc``."""
    trained = _fuse_gradients(graph)
    if not trained:
        return
    _fuse_sums(graph)
    edit = graph.edit()
    for layer in graph.of_type("fc", "matmul"):
        gelu = writer_of(input_of(layer, "x"), "gelu")
        if gelu is not None and gelu in trained and _is_plain(layer):
            add = _sum_behind(graph, layer)
            made = _make_layer(graph, gelu, layer, add)
            if made is not None:
                edit.fuse([gelu, layer] if add is None else [gelu, layer, add], [made])
    edit.apply()


def _fuse_gradients(graph: Graph) -> set[LoweredOp]:
    """Fuse the gradients; return the gelu operators whose gradients have been fused."""
    edit = graph.edit()
    trained = set()
    for derivative in graph.of_type("gelu_grad"):
        gelu = _same_gelu(graph, derivative)
        to_input = writer_of(input_of(derivative, "out_grad"), "matmul")
        if gelu is None or to_input is None or not _is_input_gradient(to_input):
            continue
        to_weight = _weight_gradient(graph, gelu, to_input)
        if to_weight is None:
            continue
        made = _make_gradient(graph, to_weight, to_input, derivative)
        if made is not None and edit.fuse([to_weight, to_input, derivative], [made]):
            trained.add(gelu)
    edit.apply()
    return trained


def _fuse_sums(graph: Graph) -> None:
    """Make the fused gradients sum their rows if the next operator does so."""
    edit = graph.edit()
    for fused in graph.of_type("cpu.gelu_fc_grad"):
        total = _sum_of_rows(graph, fused)
        if total is not None:
            inputs = {slot: input_of(fused, slot) for slot in ("x", "weight", "out_grad")}
            outputs = {slot: output_of(fused, slot) for slot in ("x_grad", "weight_grad")}
            outputs["bias_grad"] = output_of(total, "out")
            made = make_if_served(graph, fused.type, inputs, outputs, fused.attrs, fused)
            if made is not None:
                edit.fuse([fused, total], [made], at=fused)
    edit.apply()


def _own(value: Value | None) -> Value | None:
    """Return the value that a view refers to; return any other value unchanged."""
    return value if value is None else value.source or value


def _is_plain(layer: LoweredOp) -> bool:
    """Return whether a layer has no activation and operates on the last axis."""
    if layer.type == "matmul":
        y = input_of(layer, "y")
        return y is not None and len(y.meta.shape) == 2 and not layer.attrs["transpose_x"]
    return not layer.attrs["activation"] and layer.attrs["num_flatten_dims"] == _rank(layer) - 1


def _sum_behind(graph: Graph, layer: LoweredOp) -> LoweredOp | None:
    """Return the operator that adds a bias, one value per column, to a product."""
    out = output_of(layer, "out")
    add = None if out is None or layer.type == "fc" else graph.uses().only_reader(out)
    if out is None or add is None or add.type != "add":
        return None
    bias = other_input(add, out)
    return add if bias is not None and bias.meta.shape == out.meta.shape[-1:] else None


def _rank(op: LoweredOp) -> int:
    x = input_of(op, "x")
    return 0 if x is None else len(x.meta.shape)


def _same_gelu(graph: Graph, derivative: LoweredOp) -> LoweredOp | None:
    """Return the gelu operator whose gradient ``derivative`` computes."""
    x = input_of(derivative, "x")
    if x is None:
        return None
    for reader in graph.uses().readers(x):
        if reader.type == "gelu" and input_of(reader, "x") is x:
            same = reader.attrs["approximate"] == derivative.attrs["approximate"]
            return reader if same else None
    return None


def _is_input_gradient(product: LoweredOp) -> bool:
    """Return whether a product is ``grad @ weight^T``, in either layout of the weight."""
    y = input_of(product, "y")
    if y is None or len(y.meta.shape) != 2 or _rank(product) < 2:
        return False
    return not product.attrs["transpose_x"]


def _weight_gradient(graph: Graph, gelu: LoweredOp, to_input: LoweredOp) -> LoweredOp | None:
    """Return the matrix product ``gelu(x)^T @ grad``, where ``to_input`` also reads grad.

    For a weight [outputs, inputs], the product is ``grad^T @ gelu(x)``.
    """
    slots = "xy" if to_input.attrs["transpose_y"] else "yx"
    activated, grad = output_of(gelu, "out"), _own(input_of(to_input, "x"))
    if activated is None:
        return None
    for reader in graph.uses().readers(activated):
        if reader.type != "matmul" or not reader.attrs["transpose_x"]:
            continue
        x, y = (input_of(reader, slot) for slot in slots)
        if x is None or y is None or _own(x) is not activated or _own(y) is not grad:
            continue
        is_matrix = len(x.meta.shape) == 2 and x.meta.shape[1] == activated.meta.shape[-1]
        if is_matrix and len(y.meta.shape) == 2 and not reader.attrs["transpose_y"]:
            return reader
    return None


def _sum_of_rows(graph: Graph, fused: LoweredOp) -> LoweredOp | None:
    """Return the operator that sums the rows of the gradient, or None."""
    grad = output_of(fused, "x_grad")
    for reader in () if grad is None else graph.uses().readers(grad):
        total = output_of(reader, "out")
        if reader.type != "sum_like" or total is None or _own(input_of(reader, "x")) is not grad:
            continue
        if total.meta.shape == grad.meta.shape[-1:]:  # type: ignore[union-attr]
            return reader
    return None


def _make_gradient(
    graph: Graph, to_weight: LoweredOp, to_input: LoweredOp, derivative: LoweredOp
) -> LoweredOp | None:
    inputs = {
        "x": input_of(derivative, "x"),
        "weight": input_of(to_input, "y"),
        "out_grad": input_of(to_input, "x"),
    }
    outputs = {
        "x_grad": output_of(derivative, "x_grad"),
        "weight_grad": output_of(to_weight, "out"),
    }
    attrs = {
        "approximate": derivative.attrs["approximate"],
        "transpose_weight": not to_input.attrs["transpose_y"],
    }
    return make_if_served(graph, "cpu.gelu_fc_grad", inputs, outputs, attrs, derivative)


def _make_layer(
    graph: Graph, gelu: LoweredOp, layer: LoweredOp, add: LoweredOp | None
) -> LoweredOp | None:
    """Return an operator that fuses gelu, the layer after it, and a separate bias."""
    slot = "weight" if layer.type == "fc" else "y"
    inputs = {
        "x": input_of(gelu, "x"),
        "weight": input_of(layer, slot),
        "bias": input_of(layer, "bias"),
    }
    if add is not None:
        inputs["bias"] = other_input(add, layer.outputs[0][0])
    outputs = {"out": output_of(add or layer, "out")}
    attrs = {
        "approximate": gelu.attrs["approximate"],
        "transpose_weight": layer.attrs[f"transpose_{slot}"],
    }
    return make_if_served(graph, "cpu.gelu_fc", inputs, outputs, attrs, layer)
