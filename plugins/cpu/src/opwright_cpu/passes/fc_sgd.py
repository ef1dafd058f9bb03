"""``fuse_fc_sgd``: updates the weight of a fully connected layer while its gradient is computed.

A gradient that only its own update reads is not stored, because the product is added to the weight.
The bias is also updated if its learning rate is the same.
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


def fuse_fc_sgd(graph: Graph) -> None:
    """Replace the gradients of a layer and the updates that read them by ``cpu.fc_sgd``."""
    edit = graph.edit()
    biases = _bias_updates(graph)
    for update in graph.of_type("sgd"):
        product = writer_of(input_of(update, "grad"), "matmul")
        if product is None or not _is_weight_gradient(product):
            continue
        # The bias that is updated together with the weight determines which factor is the gradient.
        for slot in ("y", "x"):
            bias = biases.get(_own(input_of(product, slot)))
            if bias is not None and _same_step(update, bias[1]):
                made = _make(graph, update, product, bias[1], slot)
                if made is not None and edit.fuse([product, update, *bias], [made]):
                    break
        else:
            made = _make(graph, update, product, None, "y")
            if made is not None:
                edit.fuse([product, update], [made])
    edit.apply()


def _own(value: Value | None) -> Value | None:
    """Return the value that a view refers to; return any other value unchanged."""
    return value if value is None else value.source or value


def _bias_updates(graph: Graph) -> dict[Value | None, tuple[LoweredOp, LoweredOp]]:
    """Map each gradient to the operator that sums its rows and the update that reads the sum."""
    found: dict[Value | None, tuple[LoweredOp, LoweredOp]] = {}
    for update in graph.of_type("sgd"):
        total = writer_of(input_of(update, "grad"), "sum_like")
        if total is None:
            continue
        grad, bias = input_of(total, "x"), input_of(update, "param")
        if grad is not None and bias is not None and bias.meta.shape == grad.meta.shape[-1:]:
            found[_own(grad)] = (total, update)
    return found


def _is_weight_gradient(product: LoweredOp) -> bool:
    """Return whether a product is ``x^T @ grad``, or ``grad^T @ x`` for [outputs, inputs]."""
    x, y = input_of(product, "x"), input_of(product, "y")
    if x is None or y is None or len(x.meta.shape) != 2 or len(y.meta.shape) != 2:
        return False
    return bool(product.attrs["transpose_x"]) and not product.attrs["transpose_y"]


def _same_step(update: LoweredOp, other: LoweredOp) -> bool:
    same_rate = input_of(update, "learning_rate") is input_of(other, "learning_rate")
    return same_rate and update.attrs["weight_decay"] == other.attrs["weight_decay"]


def _make(
    graph: Graph, update: LoweredOp, product: LoweredOp, bias: LoweredOp | None, grad: str
) -> LoweredOp | None:
    """Return the update for a product; ``grad`` is the slot of the layer's output gradient."""
    inputs = {
        "param": input_of(update, "param"),
        "x": input_of(product, "y" if grad == "x" else "x"),
        "grad": input_of(product, grad),
        "learning_rate": input_of(update, "learning_rate"),
    }
    outputs = {"param_out": output_of(update, "param_out")}
    if bias is not None:
        inputs["bias"], outputs["bias_out"] = input_of(bias, "param"), output_of(bias, "param_out")
    attrs = {"weight_decay": update.attrs["weight_decay"], "transpose_weight": grad == "x"}
    return make_if_served(graph, "cpu.fc_sgd", inputs, outputs, attrs, update)
