"""lstm_cell and gru_cell, computed by two matrix products and one launch for the gates."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES, compute_bytes, compute_dtype
from opwright_cuda.kernels.elementwise import THREADS, blocks_for, operand
from opwright_cuda.kernels.reduction import launch_reduction, total_of
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct
from opwright_cuda.products import Operands, add_either_product, describe_product
from opwright_cuda.source import own_source


class _Cell(NamedTuple):
    """Sizes of a cell; `width` is the width of the pre-activations of all gates."""

    n: int
    inputs: int
    size: int
    width: int
    dtype: str

    @property
    def extents(self) -> list[Argument]:
        """The last arguments of the kernels."""
        return [np.int64(self.n), np.int64(self.size)]

    def launch(self, plan: LaunchPlan, kernel: str, arguments: list[Argument]) -> None:
        """Add a launch with one thread per element of the state."""
        n = self.n * self.size
        if n == 0:
            return
        expression = f"{kernel}<{CTYPES[self.dtype]}>"
        source = own_source("recurrent_cells.cu")
        plan.launch(source, expression, blocks_for(n, plan), THREADS, arguments)

    def parts(self, plan: LaunchPlan) -> Pointer:
        """Return memory for the pre-activation gradients."""
        return plan.workspace(max(self.n * self.width, 1) * ITEM_BYTES[self.dtype])

    def sums(self, plan: LaunchPlan, columns: int) -> Pointer:
        """Return memory for [n, columns] values of the compute type."""
        return plan.workspace(max(self.n * columns, 1) * compute_bytes(self.dtype))


def _cell(ctx: PrepareContext) -> _Cell:
    x, h, weight = (ctx.inputs[slot][0].shape for slot in ("x", "h", "weight_hh"))
    return _Cell(x[0], x[1], h[1], weight[0], ctx.inputs["x"][0].dtype)


def _add_sums(plan: LaunchPlan, cell: _Cell) -> Struct:
    """Add the products of both weights; return ``Parts`` of recurrent_cells.cu."""
    parts = []
    for slot, weight, size in (("x", "weight_ih", cell.inputs), ("h", "weight_hh", cell.size)):
        part = cell.sums(plan, cell.width)
        shapes = (cell.n, size), (cell.width, size)
        product = describe_product(*shapes, False, True, cell.dtype, compute_dtype(cell.dtype))
        add_either_product(plan, product, Operands(plan.input(slot), plan.input(weight), part))
        parts.append(part)
    return Struct(*parts, *(plan.optional_input(slot) for slot in ("bias_ih", "bias_hh")))


def _fill_in_lstm(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the pre-activations, the gates and both states."""
    cell = _cell(ctx)
    sums = _add_sums(plan, cell)
    written = [plan.output(slot) for slot in ("h_out", "c_out", "gates")]
    cell.launch(plan, "lstm_step", [*written, plan.input("c"), sums, *cell.extents])


def _fill_in_gru(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the pre-activations, the gates and the state."""
    cell = _cell(ctx)
    sums = _add_sums(plan, cell)
    written = [plan.output(slot) for slot in ("h_out", "gates")]
    cell.launch(plan, "gru_step", [*written, plan.input("h"), sums, *cell.extents])


def _write_parameters(
    ctx: PrepareContext, plan: LaunchPlan, cell: _Cell, of_x: Pointer, of_h: Pointer
) -> None:
    """Add the requested gradients of x, the weights and the biases."""
    sums = Meta((cell.n, cell.width), cell.dtype)
    if ctx.outputs["x_grad"]:
        shapes = (cell.n, cell.width), (cell.width, cell.inputs)
        operands = Operands(of_x, plan.input("weight_ih"), plan.output("x_grad"))
        add_either_product(plan, describe_product(*shapes, False, False, cell.dtype), operands)
    for part, slot, size, name in ((of_x, "x", cell.inputs, "ih"), (of_h, "h", cell.size, "hh")):
        if ctx.outputs[f"weight_{name}_grad"]:
            shapes = (cell.n, cell.width), (cell.n, size)
            operands = Operands(part, plan.input(slot), plan.output(f"weight_{name}_grad"))
            add_either_product(plan, describe_product(*shapes, True, False, cell.dtype), operands)
        for meta in ctx.outputs[f"bias_{name}_grad"]:
            out = operand(plan.output(f"bias_{name}_grad"), meta)
            launch_reduction(plan, total_of(cell.dtype), operand(part, sums), [0], out)


def _fill_in_lstm_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the pre-activation gradients, and from these the gradients of all inputs."""
    cell = _cell(ctx)
    parts = cell.parts(plan)
    c_grad = plan.output("c_grad") if ctx.outputs["c_grad"] else None
    read = [plan.input(slot) for slot in ("gates", "c", "c_out")]
    flows = [plan.optional_input(slot) for slot in ("h_out_grad", "c_out_grad")]
    cell.launch(plan, "lstm_step_back", [parts, c_grad, *read, *flows, *cell.extents])
    _write_parameters(ctx, plan, cell, parts, parts)
    if ctx.outputs["h_grad"]:
        shapes = (cell.n, cell.width), (cell.width, cell.size)
        operands = Operands(parts, plan.input("weight_hh"), plan.output("h_grad"))
        add_either_product(plan, describe_product(*shapes, False, False, cell.dtype), operands)


def _fill_in_gru_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients of both products, and from these the gradients of all inputs."""
    cell = _cell(ctx)
    of_x, of_h, direct = cell.parts(plan), cell.parts(plan), cell.sums(plan, cell.size)
    read = [plan.input(slot) for slot in ("gates", "h", "h_out_grad")]
    cell.launch(plan, "gru_step_back", [of_x, of_h, direct, *read, *cell.extents])
    _write_parameters(ctx, plan, cell, of_x, of_h)
    if ctx.outputs["h_grad"]:
        through = cell.sums(plan, cell.size)
        shapes = (cell.n, cell.width), (cell.width, cell.size)
        product = describe_product(*shapes, False, False, cell.dtype, compute_dtype(cell.dtype))
        add_either_product(plan, product, Operands(of_h, plan.input("weight_hh"), through))
        arguments: list[Argument] = [plan.output("h_grad"), through, direct]
        cell.launch(plan, "add_both", [*arguments, np.int64(cell.n * cell.size)])


LSTM_CELL: Final = Kernel(_fill_in_lstm)
LSTM_CELL_GRAD: Final = Kernel(_fill_in_lstm_grad)
GRU_CELL: Final = Kernel(_fill_in_gru)
GRU_CELL_GRAD: Final = Kernel(_fill_in_gru_grad)
