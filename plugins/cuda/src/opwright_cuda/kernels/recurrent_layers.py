"""lstm, gru and rnn, with one product of x for all steps and one product of h for each step.

Rows of x and out have the order of x, [t, n] or [n, t]; all other arrays are time-major.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES, compute_bytes, compute_dtype
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lengths import launch_check
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct
from opwright_cuda.products import (
    Operands,
    add_either_product,
    describe_product,
    repeated_product,
)
from opwright_cuda.source import own_source

_GATES: Final = {"lstm": 4, "gru": 3, "rnn": 1}


class Layers(NamedTuple):
    """The common properties of all layers of an operator.

    Attributes
    ----------
    kind : str
        The operator's type without ``_grad``.
    functor : str
        The functor of a step in recurrent.h.
    dtype, length_type : str
        The dtype of the states, and the C++ type of lengths.
    steps, n, inputs, size : int
        The sizes of x and of a state.
    n_parts, directions : int
        Directions of all layers, and of one layer.
    is_batch_first : bool
        Whether x is [n, t, inputs].
    """

    kind: str
    functor: str
    dtype: str
    length_type: str
    steps: int
    n: int
    inputs: int
    size: int
    n_parts: int
    directions: int
    is_batch_first: bool

    @property
    def width(self) -> int:
        """Width of the pre-activations of all gates."""
        return _GATES[self.kind] * self.size

    @property
    def out_width(self) -> int:
        """Width of the states of all directions."""
        return self.directions * self.size

    @property
    def rows(self) -> int:
        """Total number of steps of all sequences."""
        return self.steps * self.n

    @property
    def has_cell(self) -> bool:
        """Whether there are cells in addition to states."""
        return self.kind == "lstm"

    @property
    def state_bytes(self) -> int:
        """The size of one state of all sequences."""
        return self.n * self.size * ITEM_BYTES[self.dtype]

    def order(self, i: int) -> range:
        """Return the steps of a direction in order."""
        return range(self.steps - 1, -1, -1) if self.is_reverse(i) else range(self.steps)

    def is_reverse(self, i: int) -> bool:
        """Return whether a direction runs backward."""
        return i % self.directions == 1

    def inputs_of(self, i: int) -> int:
        """Return the input width of a direction."""
        return self.inputs if i < self.directions else self.out_width

    def memory(self, plan: LaunchPlan, n: int) -> Pointer:
        """Return memory for values of the layers' dtype."""
        return plan.workspace(max(n, 1) * ITEM_BYTES[self.dtype])

    def sums(self, plan: LaunchPlan, n: int) -> Pointer:
        """Return memory for values of the compute type."""
        return plan.workspace(max(n, 1) * compute_bytes(self.dtype))

    def part(self, pointer: Pointer, i: int, width: int) -> Pointer:
        """Return the address of a direction in a tensor [n_parts, t, n, width]."""
        return pointer + i * self.rows * width * ITEM_BYTES[self.dtype]

    def end(self, pointer: Pointer | None, i: int) -> Pointer | None:
        """Return the address of a direction in a tensor [n_parts, n, size]."""
        return None if pointer is None else pointer + i * self.state_bytes

    def direction(self, plan: LaunchPlan, i: int) -> Struct:
        """Return ``Direction`` of recurrent_layers.cu."""
        step_rows, batch_rows = (1, self.steps) if self.is_batch_first else (self.n, 1)
        numbers = [self.steps, self.n, self.size, step_rows, batch_rows, self.out_width]
        begin = i % self.directions * self.size
        return Struct(plan.optional_input("lengths"), np.array([*numbers, begin], np.int64))

    def launch(
        self, plan: LaunchPlan, kernel: str, types: str, n: int, arguments: list[Argument]
    ) -> None:
        """Add a launch with one thread per element."""
        if n > 0:
            source, blocks = own_source("recurrent_layers.cu"), blocks_for(n, plan)
            plan.launch(source, f"{kernel}<{types}>", blocks, THREADS, arguments)

    @property
    def step_types(self) -> str:
        """The template arguments of the kernels of a step."""
        ctype = CTYPES[self.dtype]
        return f"{ctype}, {self.length_type}, {self.functor}<{ctype}>"


def describe_layers(ctx: PrepareContext) -> Layers:
    """Return the layer sizes of an operator or of its gradient."""
    kind = ctx.op_type.removesuffix("_grad")
    x, is_batch_first = ctx.inputs["x"][0], ctx.attrs["batch_first"]
    steps, n = (x.shape[1], x.shape[0]) if is_batch_first else x.shape[:2]
    lengths = ctx.inputs["lengths"]
    functor = {"lstm": "Lstm", "gru": "Gru"}.get(kind)
    return Layers(
        kind,
        functor or ("TanhRnn" if ctx.attrs["activation"] == "tanh" else "ReluRnn"),
        x.dtype,
        CTYPES[lengths[0].dtype] if lengths else "int32_t",
        steps,
        n,
        x.shape[2],
        ctx.inputs["weight_hh"][0].shape[1],
        len(ctx.inputs["weight_hh"]),
        1 + ctx.attrs["bidirectional"],
        is_batch_first,
    )


def copy_or_clear(plan: LaunchPlan, out: Pointer, x: Pointer | None, n_bytes: int) -> None:
    """Add a copy of memory, or fill the memory with 0 if there is no source."""
    if x is None:
        plan.fill(out, n_bytes)
    else:
        plan.copy(out, x, n_bytes)


class _Room(NamedTuple):
    """Memory reused by all directions.

    If the dtype has 16 bits, the product with the weights reads a rounded copy of the state; the
    state itself is not rounded.
    """

    x_sums: Pointer
    h_sums: Pointer
    rounded: Pointer
    state: Pointer
    cell: Pointer | None


def _add_direction(
    ctx: PrepareContext, plan: LaunchPlan, layers: Layers, i: int, room: _Room, ends: list[Pointer]
) -> None:
    """Add all steps of one direction; it reads ends[0] and writes ends[1]."""
    source, out = ends
    dtype, wide = layers.dtype, compute_dtype(layers.dtype)
    x_shapes = (layers.rows, layers.inputs_of(i)), (layers.width, layers.inputs_of(i))
    product = describe_product(*x_shapes, False, True, dtype, wide)
    add_either_product(plan, product, Operands(source, plan.input("weight_ih", i), room.x_sums))
    h_shapes = (layers.n, layers.size), (layers.width, layers.size)
    multiply = repeated_product(plan, describe_product(*h_shapes, False, True, dtype, wide))
    firsts = [layers.end(_optional(plan, slot, layers), i) for slot in ("h0", "c0")]
    copy_or_clear(plan, room.rounded, firsts[0], layers.state_bytes)
    for now, first in zip((room.state, room.cell), firsts, strict=True):
        if now is not None and now != room.rounded:
            _begin(plan, layers, now, first)
    biases = [plan.input(slot, i) if ctx.inputs[slot] else None for slot in ("bias_ih", "bias_hh")]
    kept: list[Pointer | None] = [layers.part(plan.output("states"), i, layers.size), None, None]
    if layers.has_cell:
        kept[1] = layers.part(plan.output("cells"), i, layers.size)
    if layers.kind != "rnn":
        kept[2] = layers.part(plan.output("gates"), i, 4 * layers.size)
    trace = Struct(room.rounded, room.state, room.cell, *kept, out)
    parts = Struct(room.x_sums, room.h_sums, *biases)
    for t in layers.order(i):
        multiply(Operands(room.rounded, plan.input("weight_hh", i), room.h_sums))
        arguments: list[Argument] = [trace, parts, layers.direction(plan, i), np.int64(t)]
        n = layers.n * layers.size
        layers.launch(plan, "layer_step", layers.step_types, n, arguments)
    plan.copy(plan.output("h_n") + i * layers.state_bytes, room.rounded, layers.state_bytes)
    if layers.has_cell:
        last = firsts[1]
        if layers.steps > 0 and kept[1] is not None:
            last = kept[1] + layers.order(i)[-1] * layers.state_bytes
        copy_or_clear(plan, plan.output("c_n") + i * layers.state_bytes, last, layers.state_bytes)


def _optional(plan: LaunchPlan, slot: str, layers: Layers) -> Pointer | None:
    return plan.optional_input(slot) if slot == "h0" or layers.has_cell else None


def _begin(plan: LaunchPlan, layers: Layers, now: Pointer, first: Pointer | None) -> None:
    """Add the copy of a first state or cell to unrounded memory."""
    n = layers.n * layers.size
    arguments: list[Argument] = [now, first, np.int64(n)]
    layers.launch(plan, "begin_layer", CTYPES[layers.dtype], n, arguments)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Run the layers in order; the last layer writes out."""
    layers = describe_layers(ctx)
    launch_check(ctx, plan, layers.kind, layers.steps)
    of_state = layers.n * layers.size
    rounded = layers.memory(plan, of_state)
    room = _Room(
        layers.sums(plan, layers.rows * layers.width),
        layers.sums(plan, layers.n * layers.width),
        rounded,
        rounded if compute_dtype(layers.dtype) == layers.dtype else layers.sums(plan, of_state),
        layers.sums(plan, of_state) if layers.has_cell else None,
    )
    n_out = layers.rows * layers.out_width
    n_layers = layers.n_parts // layers.directions
    between = [layers.memory(plan, n_out) for _ in range(min(2, n_layers - 1))]
    source = plan.input("x")
    for i in range(layers.n_parts):
        layer = i // layers.directions
        out = plan.output("out") if layer == n_layers - 1 else between[layer % 2]
        _add_direction(ctx, plan, layers, i, room, [source, out])
        if (i + 1) % layers.directions == 0:
            source = out


LAYERS: Final = Kernel(_fill_in)
"""lstm, gru and rnn."""
