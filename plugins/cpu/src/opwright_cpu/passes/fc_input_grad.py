"""``fuse_fc_input_grad``: computes a fully connected layer's input gradient in one memory pass.

The product with the weight, the derivative of the preceding activation, and the bias gradient of
the preceding layer are computed while the rows are in the cache.
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

DERIVATIVES = {"relu_grad": "relu", "sigmoid_grad": "sigmoid", "tanh_grad": "tanh"}


def fuse_fc_input_grad(graph: Graph) -> None:
    """Replace a product with a weight and the operators after it by ``cpu.fc_input_grad``."""
    edit = graph.edit()
    for derivative in graph.of_type(*DERIVATIVES):
        product = writer_of(input_of(derivative, "out_grad"), "matmul")
        out = output_of(derivative, "x_grad")
        if product is None or out is None or not _is_input_gradient(product):
            continue
        total = _sum_of_rows(graph, out)
        if total is not None:
            made = _make(graph, product, derivative, total)
            if made is not None and edit.fuse([product, derivative, total], [made], at=derivative):
                continue
        made = _make(graph, product, derivative, None)
        if made is not None:
            edit.fuse([product, derivative], [made])
    edit.apply()


def _is_input_gradient(product: LoweredOp) -> bool:
    """Return whether a product is ``grad @ weight^T``, in either layout of the weight."""
    x, y = input_of(product, "x"), input_of(product, "y")
    if x is None or y is None or len(x.meta.shape) != 2 or len(y.meta.shape) != 2:
        return False
    return not product.attrs["transpose_x"]


def _sum_of_rows(graph: Graph, grad: Value) -> LoweredOp | None:
    """Return the operator that sums the rows of ``grad``, or None."""
    for reader in graph.uses().readers(grad):
        total = output_of(reader, "out")
        if reader.type != "sum_like" or total is None or input_of(reader, "x") is not grad:
            continue
        if total.meta.shape == grad.meta.shape[1:]:
            return reader
    return None


def _make(
    graph: Graph, product: LoweredOp, derivative: LoweredOp, total: LoweredOp | None
) -> LoweredOp | None:
    inputs = {
        "grad": input_of(product, "x"),
        "weight": input_of(product, "y"),
        "activated": input_of(derivative, "out"),
    }
    outputs = {"x_grad": output_of(derivative, "x_grad")}
    if total is not None:
        outputs["bias_grad"] = output_of(total, "out")
    attrs = {
        "activation": DERIVATIVES[derivative.type],
        "transpose_weight": not product.attrs["transpose_y"],
    }
    return make_if_served(graph, "cpu.fc_input_grad", inputs, outputs, attrs, product)
