"""The pass ``fuse_bias_grad`` fuses the gradients of an activation and of its bias.

The sum over rows reads the output of the derivative. For a small batch, each of these two operators
takes less time than a launch.
"""

from __future__ import annotations

from typing import Final

from opwright.rewriting import Graph, LoweredOp, Value, input_of, make_if_served, output_of

DERIVATIVES: Final = {"relu_grad": "relu", "sigmoid_grad": "sigmoid", "tanh_grad": "tanh"}


def fuse_bias_grad(graph: Graph) -> None:
    """Fuse a derivative and the sum of its rows into ``cuda.bias_activation_grad``."""
    edit = graph.edit()
    for derivative in graph.of_type(*DERIVATIVES):
        grad = output_of(derivative, "x_grad")
        total = None if grad is None else find_sum_of_rows(graph, grad)
        if total is None:
            continue
        inputs = {slot: input_of(derivative, slot) for slot in ("out", "out_grad")}
        outputs = {"x_grad": grad, "bias_grad": output_of(total, "out")}
        attrs = {"activation": DERIVATIVES[derivative.type]}
        if None in inputs.values():
            continue
        made = make_if_served(
            graph, "cuda.bias_activation_grad", inputs, outputs, attrs, derivative
        )
        if made is not None:
            edit.fuse([derivative, total], [made], at=derivative)
    edit.apply()


def find_sum_of_rows(graph: Graph, grad: Value) -> LoweredOp | None:
    """Return the operator that sums all rows of ``grad``, or None."""
    for reader in graph.uses().readers(grad):
        total = output_of(reader, "out")
        if reader.type != "sum_like" or total is None or input_of(reader, "x") is not grad:
            continue
        if len(grad.meta.shape) >= 2 and total.meta.shape == grad.meta.shape[-1:]:
            return reader
    return None
