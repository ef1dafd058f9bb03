"""Recurrent layers over whole sequences: lstm, gru and rnn; formulas and gates as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opwright.op import (
    InferContext,
    OpMaker,
    Shape,
    format_shape,
    grad_op,
    merge_dims,
    shapes_match,
)
from opwright_std.compositions import recurrent as recurrent_gradients
from opwright_std.numerics.dtypes import FLOATS, INDICES
from opwright_std.numerics.recurrent import GRU_KIND, LSTM_KIND, RNN_KINDS
from opwright_std.numerics.recurrent_layers import run_layers, run_layers_back

if TYPE_CHECKING:
    from opwright.kernel import PrepareContext

_KINDS = {"lstm": LSTM_KIND, "gru": GRU_KIND}


class _Layers:
    """Kernel of all recurrent layers and of their gradients."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Return a function whose arguments are all slots in order."""
        names, attrs = (*ctx.inputs, *ctx.outputs), ctx.attrs
        op_type = ctx.op_type.removesuffix("_grad")
        kind = _KINDS.get(op_type) or RNN_KINDS[attrs["activation"]]
        function = run_layers if op_type == ctx.op_type else run_layers_back

        def run(*slots: Any) -> None:
            named = dict(zip(names, slots, strict=True))
            function(op_type, kind, named, 1 + attrs["bidirectional"], attrs["batch_first"])

        return run


lstm = gru = rnn = lstm_grad = gru_grad = rnn_grad = _Layers


def _check_parameters(ctx: InferContext, gates: int, directions: int, inputs: int) -> int:
    """Return the size of the state; check the shapes of all parameters."""
    count, first = len(ctx.inputs("weight_ih")), ctx.inputs("weight_hh")[0].shape
    if len(first) != 2:
        ctx.fail(f"weight_hh 0 must be [{gates} * size, size], got {format_shape(first)}")
    size = first[1]
    if count % directions != 0:
        ctx.fail(f"weight_ih must hold {directions} for each layer, got {count}")
    for i in range(count):
        width = inputs if i < directions else directions * size if size >= 0 else -1
        rows = gates * size if size >= 0 else -1
        wanted: dict[str, Shape] = {"weight_ih": (rows, width), "weight_hh": (rows, size)}
        wanted |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        for slot, shape in wanted.items():
            metas = ctx.inputs(slot)
            if slot.startswith("bias") and not metas:
                continue
            if len(metas) != count:
                ctx.fail(
                    f"{slot} must have as many elements as weight_ih, {count}, got {len(metas)}"
                )
            if not shapes_match(metas[i].shape, shape):
                got = format_shape(metas[i].shape)
                ctx.fail(f"{slot} {i} must be {format_shape(shape)}, got {got}")
    return size


def _set_shapes(ctx: InferContext, gates: int, saved: int) -> None:
    """Set the outputs: states of all steps, [t, n, ...] or [n, t, ...], and the final states."""
    x, directions = ctx.input("x").shape, 1 + ctx.attr("bidirectional")
    if len(x) != 3:
        order = "[n, t, inputs]" if ctx.attr("batch_first") else "[t, n, inputs]"
        ctx.fail(f"x must be {order}, got {format_shape(x)}")
    size = _check_parameters(ctx, gates, directions, x[2])
    count = len(ctx.inputs("weight_ih"))
    steps, n = (x[1], x[0]) if ctx.attr("batch_first") else (x[0], x[1])
    slots = ("h0", "c0")[: 2 if gates == 4 else 1]
    for slot in slots:
        if ctx.has_input(slot):
            ctx.require_shape(slot, (count, n, size))
    if ctx.has_input("lengths"):
        ctx.require_shape("lengths", (n,))
        n = merge_dims(n, ctx.input("lengths").shape[0])
    ctx.set_output(
        "out",
        (
            *((n, steps) if ctx.attr("batch_first") else (steps, n)),
            directions * size if size >= 0 else -1,
        ),
    )
    ctx.set_output("h_n", (count, n, size))
    ctx.set_output("states", (count, steps, n, size))
    if saved:
        ctx.set_output("gates", (count, steps, n, saved * size if size >= 0 else -1))
    if gates == 4:
        ctx.set_output("c_n", (count, n, size))
        ctx.set_output("cells", (count, steps, n, size))


def _lstm_shape(ctx: InferContext) -> None:
    """The output has all steps of the last layer; h_n and c_n are the final states."""
    _set_shapes(ctx, 4, 4)


def _gru_shape(ctx: InferContext) -> None:
    """The output has all steps of the last layer; h_n has the final states."""
    _set_shapes(ctx, 3, 4)


def _rnn_shape(ctx: InferContext) -> None:
    """The output has all steps of the last layer; h_n has the final states."""
    _set_shapes(ctx, 1, 0)


_ABOUT = (
    " The lists of parameters are ordered by layer; with bidirectional, each layer's forward "
    "parameters precede the backward ones, and the next layer reads both states concatenated. "
    "With lengths, each sequence ends after its length: out is 0 in the padding, the final state "
    "is that of the last valid step, and the backward direction starts there."
)


def _maker(op_type: str, comment: str, gates: int, has_cell: bool) -> OpMaker:
    rows = f"[{gates} * size, " if gates > 1 else "[size, "
    maker = OpMaker(op_type).add_comment(comment + _ABOUT)
    maker.add_input("x", "float [t, n, inputs], with batch_first [n, t, inputs]").dtypes(*FLOATS)
    maker.add_input("weight_ih", f"{rows}inputs]; after the first layer {rows}directions * size]")
    maker.same_dtype_as("x").as_duplicable()
    maker.add_input("weight_hh", f"{rows}size]").same_dtype_as("x").as_duplicable()
    for slot in ("bias_ih", "bias_hh"):
        maker.add_input(slot, f"{rows[:-2]}]; absent: 0").same_dtype_as("x")
        maker.as_duplicable().as_optional()
    states = "[layers * directions, n, size]"
    for slot in ("h0", "c0")[: 1 + has_cell]:
        maker.add_input(slot, f"{states}; absent counts as 0").same_dtype_as("x").as_optional()
    maker.add_input("lengths", "[n], from 0 to t; absent: all t").dtypes(*INDICES).as_optional()
    maker.add_output("out", "[t, n, directions * size], with batch_first [n, t, ...]")
    maker.same_dtype_as("x")
    for slot in ("h_n", "c_n")[: 1 + has_cell]:
        maker.add_output(slot, states).same_dtype_as("x")
    if gates > 1:
        maker.add_output("gates", "[layers * directions, t, n, 4 * size]").same_dtype_as("x")
        maker.as_intermediate()
    for slot in ("states", "cells")[: 1 + has_cell]:
        maker.add_output(slot, "[layers * directions, t, n, size]").same_dtype_as("x")
        maker.as_intermediate()
    maker.add_attr("bidirectional", bool, "whether a second direction runs backward")
    maker.default(False)
    return maker.add_attr("batch_first", bool, "whether n precedes t").default(False)


_READ = ["x", "weight_ih", "weight_hh", "h0", "lengths"]

LSTM = _maker(
    "lstm",
    "Long short-term memory, at each step with a = x @ weight_ih^T + bias_ih + h @ weight_hh^T + "
    "bias_hh, whose four parts are i, f, g and o: c = sigmoid(f) * c + sigmoid(i) * tanh(g), "
    "h = sigmoid(o) * tanh(c). Hochreiter and Schmidhuber, 1997.",
    4,
    True,
).build(
    infer_shape=_lstm_shape,
    gradient=grad_op("lstm_grad", needs=[*_READ, "c0", "gates", "states", "cells"]),
)

GRU = (
    _maker(
        "gru",
        "Gated recurrent unit, at each step with a = x @ weight_ih^T + bias_ih and "
        "b = h @ weight_hh^T + bias_hh, whose three parts are r, z and n: r = sigmoid(a_r + b_r), "
        "z = sigmoid(a_z + b_z), n = tanh(a_n + r * b_n), h = (1 - z) * n + z * h; without "
        "reset_after, b_n is computed from r * h. Cho et al., 2014.",
        3,
        False,
    )
    .add_attr("reset_after", bool, "whether r multiplies b_n, instead of h before the product")
    .default(True)
    .as_added()
    .build(
        infer_shape=_gru_shape,
        gradient=grad_op(
            "gru_grad", needs=[*_READ, "gates", "states"], body=recurrent_gradients.gru
        ),
        body=recurrent_gradients.gru_body,
    )
)

RNN = (
    _maker(
        "rnn",
        "Plain recurrent layer, at each step h = activation(x @ weight_ih^T + bias_ih + "
        "h @ weight_hh^T + bias_hh). Elman, 1990.",
        1,
        False,
    )
    .add_attr("activation", str, "of each step")
    .default("tanh")
    .one_of("tanh", "relu")
    .build(
        infer_shape=_rnn_shape,
        gradient=grad_op("rnn_grad", needs=[*_READ, "states"]),
    )
)
