"""Computes the two gradients of a small layer, products of different shapes, in one launch."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from opwright_cuda.dtypes import CTYPES
from opwright_cuda.launch import Argument, LaunchPlan, Struct
from opwright_cuda.launch.indexing import Layout
from opwright_cuda.products.product import Operands, Product
from opwright_cuda.products.small import Tile, choose_tile, find_small_refusal, sides_of
from opwright_cuda.source import own_source

_ONE: Final = Layout((), ((), (), ()))


class LayerGrads(NamedTuple):
    """The gradients of a layer with x [rows, inputs] and a weight [inputs, outputs].

    Attributes
    ----------
    rows, inputs, outputs : int
        Extents.
    dtype : str
        The dtype of all tensors.
    has_bias : bool
        Whether the bias gradient is requested.
    """

    rows: int
    inputs: int
    outputs: int
    dtype: str
    has_bias: bool

    @property
    def of_weight(self) -> Product:
        """The product of transposed x and out_grad."""
        extents = self.inputs, self.outputs, self.rows
        return Product(*extents, True, False, _ONE, self.dtype, self.dtype)

    @property
    def of_x(self) -> Product:
        """The product of out_grad and the transposed weight."""
        extents = self.rows, self.inputs, self.outputs
        return Product(*extents, False, True, _ONE, self.dtype, self.dtype)

    def tiles_of(self, tile: Tile) -> int:
        """Return the number of tiles of weight_grad, including bias_grad as an extra row."""
        return tile.tiles_of(self.inputs + self.has_bias, self.outputs)


def find_layer_refusal(
    layer: LayerGrads, multiprocessors: int, allows_tf32: bool = False
) -> str | None:
    """Return the reason why the gradients cannot be computed in one launch, or None."""
    if layer.inputs == 0:
        return "a layer without inputs has no rows to read"
    return find_small_refusal(layer.of_weight, multiprocessors, allows_tf32)


def choose_layer_tiles(layer: LayerGrads, multiprocessors: int) -> tuple[Tile, Tile]:
    """Return the tiles of x_grad and of weight_grad; their blocks run concurrently."""
    of_x = choose_tile(layer.of_x, multiprocessors, 0)
    n_others = of_x.tiles_of(layer.rows, layer.inputs)
    return of_x, choose_tile(layer.of_weight, multiprocessors, n_others)


def add_layer_grads(plan: LaunchPlan, layer: LayerGrads, derivative: str | None) -> None:
    """Add the launch of the requested outputs of ``cuda.layer_grads``.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    layer : LayerGrads
        The layer, which must not have been refused.
    derivative : str, optional
        The gradient of the operator that wrote x, a functor of functions.h on x and a gradient.
    """
    operands = Operands(plan.input("x"), plan.input("out_grad"), plan.output("weight_grad"))
    left, right = sides_of(layer.of_weight, operands)
    ctype, has_bias = CTYPES[layer.dtype], "true" if layer.has_bias else "false"
    widths = f"{left.width}, {right.width}, {has_bias}"
    grads: list[Argument] = [operands.out, plan.optional_output("bias_grad")]
    sizes = Struct(np.array([layer.rows, layer.inputs, layer.outputs], np.int32))
    source, x_grad = own_source("layer_grads.cu"), plan.optional_output("x_grad")
    if x_grad is None:
        tile = choose_tile(layer.of_weight, plan.gpu.multiprocessors)
        expression = f"weight_grads<{ctype}, {tile.ctype}, {widths}>"
        given = [*grads, operands.x, operands.y, sizes]
        plan.launch(source, expression, layer.tiles_of(tile), tile.threads, given)
        return
    of_x, tile = choose_layer_tiles(layer, plan.gpu.multiprocessors)
    first = of_x.tiles_of(layer.rows, layer.inputs)
    epilogue, saved = f"BiasedActivation<{ctype}, Identity>", None
    if derivative is not None:
        epilogue, saved = f"SavedDerivative<{ctype}, {derivative}>", operands.x
    expression = f"layer_grads<{ctype}, {of_x.ctype}, {tile.ctype}, {widths}, {epilogue}>"
    read = [operands.x, saved, plan.input("weight"), operands.y]
    given = [x_grad, *grads, *read, sizes, np.uint32(first)]
    plan.launch(source, expression, first + layer.tiles_of(tile), tile.threads, given)
