"""``fuse_fc``: fuse matrix product, bias and activation into a fully connected layer.

The kernel then applies bias and activation to rows of the product in the cache.
"""

from __future__ import annotations

from opwright.rewriting import (
    Graph,
    LoweredOp,
    Value,
    input_of,
    make_if_served,
    output_of,
    writer_of,
)

ACTIVATIONS = ("relu", "sigmoid", "tanh", "softmax")


def fuse_fc(graph: Graph) -> None:
    """Fuse ``matmul`` and ``add`` into ``fc``, then ``fc`` or ``matmul`` and an activation."""
    _fuse_bias(graph)
    _fuse_activation(graph)


def _fuse_bias(graph: Graph) -> None:
    if not graph.of_type("matmul"):
        return
    edit = graph.edit()
    for add in graph.of_type("add"):
        for product_slot, bias_slot in (("x", "y"), ("y", "x")):
            product = writer_of(input_of(add, product_slot), "matmul")
            bias = input_of(add, bias_slot)
            if product is None or not _is_layer(product) or bias is None:
                continue
            if bias.meta.shape == product.outputs[0][0].meta.shape[-1:]:
                made = _make_fc(graph, product, bias, "", add)
                if made is not None and edit.fuse([product, add], [made]):
                    break
    edit.apply()


def _fuse_activation(graph: Graph) -> None:
    if not graph.of_type("fc", "matmul"):
        return
    edit = graph.edit()
    for op in graph.of_type(*ACTIVATIONS):
        layer = writer_of(input_of(op, "x"), "fc", "matmul")
        if layer is None or layer.attrs.get("activation") or not _takes_last_axis(op):
            continue
        if layer.type == "matmul" and not _is_layer(layer):
            continue
        made = _make_fc(graph, layer, input_of(layer, "bias"), op.type, op)
        if made is not None:
            edit.fuse([layer, op], [made])
    edit.apply()


def _is_layer(product: LoweredOp) -> bool:
    """Return whether a product multiplies rows by one matrix, possibly transposed."""
    x, y = input_of(product, "x"), input_of(product, "y")
    if x is None or y is None or product.attrs["transpose_x"]:
        return False
    return len(x.meta.shape) >= 2 and len(y.meta.shape) == 2


def _takes_last_axis(op: LoweredOp) -> bool:
    if op.type != "softmax":
        return True
    x = input_of(op, "x")
    return x is not None and op.attrs["axis"] in (-1, len(x.meta.shape) - 1)


def _make_fc(
    graph: Graph, layer: LoweredOp, bias: Value | None, activation: str, last: LoweredOp
) -> LoweredOp | None:
    if graph.definition("fc") is None:
        return None
    x, out = input_of(layer, "x"), output_of(last, "out")
    slot = "weight" if layer.type == "fc" else "y"
    weight, turned = input_of(layer, slot), layer.attrs[f"transpose_{slot}"]
    if x is None or weight is None or out is None:
        return None
    kept = layer.attrs.get("num_flatten_dims", len(x.meta.shape) - 1)
    inputs = {"x": x, "weight": weight, "bias": bias}
    attrs = {
        "num_flatten_dims": kept,
        "activation": activation,
        "transpose_weight": turned,
    }
    return make_if_served(graph, "fc", inputs, {"out": out}, attrs, layer)
