"""The pass ``fuse_layer_grads`` fuses all gradients of a small layer into one launch.

The gradients of its weight, bias and input all read the output gradient, and the derivative of the
preceding activation reads the input gradient. In a small layer, each of these takes less time than
a launch.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from opwright.rewriting import Graph, LoweredOp, Value, input_of, make_if_served, output_of
from opwright_cuda.passes.bias_grad import DERIVATIVES, find_sum_of_rows

FUSED: Final = "cuda.layer_grads"


def fuse_layer_grads(graph: Graph) -> None:
    """Fuse products, a sum of rows and a derivative into ``cuda.layer_grads``."""
    edit = graph.edit()
    for product in graph.of_type("matmul"):
        layer = _find_layer(graph, product)
        if layer is not None:
            for parts in (layer, layer._replace(derivative=None)):
                made = _make(graph, parts)
                if made is not None and edit.fuse(parts.ops, [made]):
                    break
    edit.apply()


class _Layer(NamedTuple):
    """The operators that compute gradients of a layer."""

    of_weight: LoweredOp
    of_bias: LoweredOp | None
    of_x: LoweredOp | None
    derivative: LoweredOp | None

    @property
    def ops(self) -> list[LoweredOp]:
        return [op for op in self if op is not None]


def _find_layer(graph: Graph, product: LoweredOp) -> _Layer | None:
    """Find a layer's gradients by its weight gradient, or return None if there are no others."""
    x, grad = input_of(product, "x"), input_of(product, "y")
    if x is None or grad is None or not _is(product, True, False):
        return None
    of_bias, of_x = find_sum_of_rows(graph, grad), _find_of_x(graph, grad, x)
    if of_bias is None and of_x is None:
        return None
    return _Layer(product, of_bias, of_x, of_x and _find_derivative(graph, of_x, x))


def _is(product: LoweredOp, transpose_x: bool, transpose_y: bool) -> bool:
    """Return whether a product multiplies two matrices with these transpositions."""
    attrs = product.attrs
    return (attrs["transpose_x"], attrs["transpose_y"]) == (transpose_x, transpose_y) and all(
        len(value.meta.shape) == 2 for values in product.inputs for value in values
    )


def _find_of_x(graph: Graph, grad: Value, x: Value) -> LoweredOp | None:
    """Return the product that computes the gradient of x."""
    for reader in graph.uses().readers(grad):
        if reader.type != "matmul" or input_of(reader, "x") is not grad:
            continue
        made = output_of(reader, "out")
        if _is(reader, False, True) and made is not None and made.meta == x.meta:
            return reader
    return None


def _find_derivative(graph: Graph, of_x: LoweredOp, x: Value) -> LoweredOp | None:
    """Return the derivative of the operator that wrote x, if only it reads the gradient of x."""
    made = output_of(of_x, "out")
    reader = None if made is None else graph.uses().only_reader(made)
    if reader is None or reader.type not in DERIVATIVES or input_of(reader, "out") is not x:
        return None
    return reader if input_of(reader, "out_grad") is made else None


def _make(graph: Graph, layer: _Layer) -> LoweredOp | None:
    """Return the fused operator, or None if there is no kernel for it."""
    of_weight, of_bias, of_x, derivative = layer
    last, slot = (of_x, "out") if derivative is None else (derivative, "x_grad")
    inputs = {
        "x": input_of(of_weight, "x"),
        "weight": None if of_x is None else input_of(of_x, "y"),
        "out_grad": input_of(of_weight, "y"),
    }
    outputs = {
        "weight_grad": output_of(of_weight, "out"),
        "bias_grad": None if of_bias is None else output_of(of_bias, "out"),
        "x_grad": None if last is None else output_of(last, slot),
    }
    attrs = {"activation": DERIVATIVES[derivative.type] if derivative else ""}
    return make_if_served(graph, FUSED, inputs, outputs, attrs, of_weight)
