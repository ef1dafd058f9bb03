"""One step of a recurrent layer: lstm_cell and gru_cell; formulas and gates as in PyTorch."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, grad_op, merge_dims
from opwright_std.compositions import layers as layers_gradients
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.recurrent import (
    GRU_KIND,
    LSTM_KIND,
    Parameters,
    StepGrads,
    h_part_of,
    x_part_of,
)


def lstm_cell(
    x: Array,
    h: Array,
    c: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    h_out: Array,
    c_out: Array,
    gates: Array,
) -> None:
    parameters = Parameters(weight_ih, weight_hh, bias_ih, bias_hh)
    step = LSTM_KIND.step(x_part_of(parameters, x), h_part_of(parameters, h), h, c)
    np.copyto(h_out, step.state)
    np.copyto(c_out, np.asarray(step.cell))
    np.copyto(gates, step.gates)


def gru_cell(
    x: Array,
    h: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    h_out: Array,
    gates: Array,
) -> None:
    parameters = Parameters(weight_ih, weight_hh, bias_ih, bias_hh)
    step = GRU_KIND.step(x_part_of(parameters, x), h_part_of(parameters, h), h, None)
    np.copyto(h_out, step.state)
    np.copyto(gates, step.gates)


def _write_grads(
    step: StepGrads,
    x: Array,
    h: Array,
    parameters: Parameters,
    x_grad: Array | None,
    h_grad: Array | None,
    grads: Parameters,
) -> None:
    if x_grad is not None:
        np.copyto(x_grad, step.x_part @ parameters.weight_ih)
    if h_grad is not None:
        np.add(step.h_part @ parameters.weight_hh, step.state, out=h_grad)
    if grads.weight_ih is not None:
        np.matmul(step.x_part.T, x, out=grads.weight_ih)
    if grads.weight_hh is not None:
        np.matmul(step.h_part.T, h, out=grads.weight_hh)
    for part, wanted in ((step.x_part, grads.bias_ih), (step.h_part, grads.bias_hh)):
        if wanted is not None:
            np.sum(part, axis=0, out=wanted)


def lstm_cell_grad(
    x: Array,
    h: Array,
    c: Array,
    weight_ih: Array,
    weight_hh: Array,
    c_out: Array,
    gates: Array,
    h_out_grad: Array | None,
    c_out_grad: Array | None,
    x_grad: Array | None,
    h_grad: Array | None,
    c_grad: Array | None,
    weight_ih_grad: Array | None,
    weight_hh_grad: Array | None,
    bias_ih_grad: Array | None,
    bias_hh_grad: Array | None,
) -> None:
    zeros = np.zeros(c.shape, c.dtype)
    flows = [zeros if grad is None else grad for grad in (h_out_grad, c_out_grad)]
    step = LSTM_KIND.back(gates, h, c, c_out, *flows)
    if c_grad is not None:
        np.copyto(c_grad, np.asarray(step.cell))
    grads = Parameters(weight_ih_grad, weight_hh_grad, bias_ih_grad, bias_hh_grad)
    _write_grads(step, x, h, Parameters(weight_ih, weight_hh, None, None), x_grad, h_grad, grads)


def gru_cell_grad(
    x: Array,
    h: Array,
    weight_ih: Array,
    weight_hh: Array,
    gates: Array,
    h_out_grad: Array,
    x_grad: Array | None,
    h_grad: Array | None,
    weight_ih_grad: Array | None,
    weight_hh_grad: Array | None,
    bias_ih_grad: Array | None,
    bias_hh_grad: Array | None,
) -> None:
    step = GRU_KIND.back(gates, h, None, None, h_out_grad, None)
    grads = Parameters(weight_ih_grad, weight_hh_grad, bias_ih_grad, bias_hh_grad)
    _write_grads(step, x, h, Parameters(weight_ih, weight_hh, None, None), x_grad, h_grad, grads)


def _set_shapes(ctx: InferContext, gates: int) -> None:
    """The new state has the shape of the old state."""
    x, h = ctx.input("x").shape, ctx.input("h").shape
    for slot, shape, named in (("x", x, "inputs"), ("h", h, "size")):
        if len(shape) != 2:
            ctx.fail(f"{slot} must be [n, {named}], got {format_shape(shape)}")
    n, size = merge_dims(x[0], h[0]), h[1]
    ctx.require_shape("h", (x[0], -1))
    rows = gates * size if size >= 0 else -1
    wanted = {"weight_ih": (rows, x[1]), "weight_hh": (rows, size)}
    for slot, pair in wanted.items():
        ctx.require_shape(slot, pair)
    for slot in ("bias_ih", "bias_hh"):
        if ctx.has_input(slot):
            ctx.require_shape(slot, (rows,))
    ctx.set_output("h_out", (n, size))
    ctx.set_output("gates", (n, 4 * size if size >= 0 else -1))
    if gates == 4:
        ctx.require_shape("c", (n, size))
        ctx.set_output("c_out", (n, size))


def _lstm_cell_shape(ctx: InferContext) -> None:
    """The new state and cell have the shapes of the old state and cell."""
    _set_shapes(ctx, 4)


def _gru_cell_shape(ctx: InferContext) -> None:
    """The new state has the shape of the old state."""
    _set_shapes(ctx, 3)


def _maker(op_type: str, comment: str, gates: int, slots: tuple[str, ...]) -> OpMaker:
    maker = OpMaker(op_type).add_comment(comment)
    maker.add_input("x", "float [n, inputs]").dtypes(*FLOATS)
    for slot in slots:
        maker.add_input(slot, "[n, size]").same_dtype_as("x")
    maker.add_input("weight_ih", f"[{gates} * size, inputs]").same_dtype_as("x")
    maker.add_input("weight_hh", f"[{gates} * size, size]").same_dtype_as("x")
    for slot in ("bias_ih", "bias_hh"):
        maker.add_input(slot, f"[{gates} * size]; absent counts as 0")
        maker.same_dtype_as("x").as_optional()
    for slot in slots:
        maker.add_output(f"{slot}_out", f"the new {slot}, [n, size]").same_dtype_as("x")
    maker.add_output("gates", "[n, 4 * size]").same_dtype_as("x").as_intermediate()
    return maker


_READ = ["x", "h", "weight_ih", "weight_hh", "gates"]

LSTM_CELL = _maker(
    "lstm_cell",
    "One step of lstm: with a = x @ weight_ih^T + bias_ih + h @ weight_hh^T + bias_hh, whose four "
    "parts are i, f, g and o, c_out = sigmoid(f) * c + sigmoid(i) * tanh(g) and "
    "h_out = sigmoid(o) * tanh(c_out).",
    4,
    ("h", "c"),
).build(
    infer_shape=_lstm_cell_shape,
    gradient=grad_op(
        "lstm_cell_grad", needs=[*_READ, "c", "c_out"], body=layers_gradients.lstm_cell
    ),
)

GRU_CELL = (
    _maker(
        "gru_cell",
        "One step of gru: with a = x @ weight_ih^T + bias_ih and b = h @ weight_hh^T + bias_hh, "
        "whose three parts are r, z and n, r = sigmoid(a_r + b_r), z = sigmoid(a_z + b_z), "
        "n = tanh(a_n + r * b_n) and h_out = (1 - z) * n + z * h; without reset_after, b_n is "
        "computed from r * h.",
        3,
        ("h",),
    )
    .add_attr("reset_after", bool, "whether r multiplies b_n, instead of h before the product")
    .default(True)
    .as_added()
    .build(
        infer_shape=_gru_cell_shape,
        gradient=grad_op("gru_cell_grad", needs=_READ, body=layers_gradients.gru_cell),
        body=layers_gradients.gru_cell_body,
    )
)
