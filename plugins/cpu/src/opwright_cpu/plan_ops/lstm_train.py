"""A unidirectional LSTM that saves its gates, and the cells of a few steps, for its gradient."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, Shape, format_shape, shapes_match

FLOATS = ("float32", "float64")
GATES = 4

_Extents = tuple[int, int, int, int]
"""Layers, steps, batch rows and state size."""


def _need_layers(ctx: InferContext) -> _Extents:
    """Return the sizes of the LSTM; refuse parameters with different sizes."""
    x, weights = ctx.input("x").shape, [meta.shape for meta in ctx.inputs("weight_hh")]
    if len(x) != 3 or len(weights[0]) != 2:
        ctx.fail(
            "x must have 3 axes and weight_hh be [4 * size, size], got "
            f"{format_shape(x)} and {format_shape(weights[0])}"
        )
    size = weights[0][1]
    rows = _gates(size)
    ctx.require_shape("weight_hh", (rows, size))
    given = ctx.inputs("weight_ih")
    for i, meta in enumerate(given):
        wanted: Shape = (rows, size if i else x[2])
        if len(given) != len(weights) or not shapes_match(meta.shape, wanted):
            ctx.fail(
                f"weight_ih must be {len(weights)}, {i} of them {format_shape(wanted)}, got "
                f"{len(given)} and {format_shape(meta.shape)}"
            )
    steps, n = (x[1], x[0]) if ctx.attr("batch_first") else (x[0], x[1])
    return len(weights), steps, n, size


def _gates(size: int) -> int:
    return GATES * size if size >= 0 else -1


def _kept(ctx: InferContext, extents: _Extents) -> tuple[Shape, Shape]:
    """Return the shapes of the gates and of the saved cells."""
    layers, steps, n, size = extents
    parts = -(-steps // ctx.attr("part_steps")) if steps >= 0 else -1
    return (layers, steps, n, _gates(size)), (layers, parts, n, size)


def _forward_shape(ctx: InferContext) -> None:
    layers, steps, n, size = extents = _need_layers(ctx)
    for slot in ("bias_ih", "bias_hh"):
        ctx.require_shape(slot, (_gates(size),))
    for slot in ("h0", "c0"):
        ctx.require_shape(slot, (layers, n, size))
    ctx.require_shape("lengths", (n,))
    ctx.set_output("out", (n, steps, size) if ctx.attr("batch_first") else (steps, n, size))
    ctx.set_output("h_n", (layers, n, size))
    ctx.set_output("c_n", (layers, n, size))
    gates, marks = _kept(ctx, extents)
    ctx.set_output("gates", gates)
    ctx.set_output("marks", marks)


def _gradient_shape(ctx: InferContext) -> None:
    layers, steps, n, size = extents = _need_layers(ctx)
    gates, marks = _kept(ctx, extents)
    ctx.require_shape("gates", gates)
    ctx.require_shape("marks", marks)
    out = (n, steps, size) if ctx.attr("batch_first") else (steps, n, size)
    ctx.require_shape("out_grad", out)
    for slot in ("h0", "h_n_grad", "c_n_grad"):
        ctx.require_shape(slot, (layers, n, size))
    ctx.require_shape("lengths", (n,))
    ctx.set_output("x_grad", ctx.input("x").shape)
    for slot in ("weight_ih", "weight_hh"):
        ctx.set_outputs(f"{slot}_grad", [meta.shape for meta in ctx.inputs(slot)])
    for slot in ("bias_ih_grad", "bias_hh_grad"):
        ctx.set_outputs(slot, [(_gates(size),)] * layers)
    for slot in ("h0_grad", "c0_grad"):
        ctx.set_output(slot, (layers, n, size))
    ctx.set_output("sums_grad", gates)


def _with_parameters(maker: OpMaker, biases: bool) -> OpMaker:
    """Add slots for x and the parameters of each layer."""
    maker.add_input("x", "float [t, n, inputs], with batch_first [n, t, inputs]").dtypes(*FLOATS)
    maker.add_input("weight_ih", "[4 * size, inputs], behind the first layer [4 * size, size]")
    maker.same_dtype_as("x").as_duplicable()
    maker.add_input("weight_hh", "[4 * size, size]").same_dtype_as("x").as_duplicable()
    for slot in ("bias_ih", "bias_hh") if biases else ():
        maker.add_input(slot, "[4 * size]").same_dtype_as("x").as_duplicable().as_optional()
    return maker


def _with_attributes(maker: OpMaker) -> OpMaker:
    maker.add_attr("batch_first", bool, "whether n precedes t").default(False)
    maker.add_attr("part_steps", int, "steps of a part; parts are counted from the end")
    return maker.default(1).at_least(1)


_STATE = "[layers, n, size]"
_GATES = "[layers, t, n, 4 * size]"
_MARKS = "[layers, parts, n, size], the cells before each part of the steps"


def _forward() -> OpMaker:
    maker = OpMaker("cpu.lstm_train").add_comment(
        "As lstm, in one direction, but for what is kept."
    )
    _with_parameters(maker, biases=True)
    for slot in ("h0", "c0"):
        maker.add_input(slot, _STATE).same_dtype_as("x").as_optional()
    maker.add_input("lengths", "[n]").dtypes("int32", "int64").as_optional()
    maker.add_output("out", "[t, n, size], with batch_first [n, t, ...]").same_dtype_as("x")
    for slot in ("h_n", "c_n"):
        maker.add_output(slot, _STATE).same_dtype_as("x")
    maker.add_output("gates", f"{_GATES}, what the step made of its sums").same_dtype_as("x")
    maker.add_output("marks", _MARKS).same_dtype_as("x")
    return _with_attributes(maker)


def _gradient() -> OpMaker:
    maker = OpMaker("cpu.lstm_train_grad").add_comment(
        "The gradients of cpu.lstm_train, which computes cells and states again from what is kept. "
        "sums_grad, the gradient of the gates' sums, may lie in the place of gates."
    )
    _with_parameters(maker, biases=False)
    maker.add_input("h0", _STATE).same_dtype_as("x").as_optional()
    maker.add_input("lengths", "[n]").dtypes("int32", "int64").as_optional()
    maker.add_input("gates", _GATES).same_dtype_as("x")
    maker.add_input("marks", _MARKS).same_dtype_as("x")
    maker.add_input("out_grad", "as out").same_dtype_as("x").as_optional()
    for slot in ("h_n_grad", "c_n_grad"):
        maker.add_input(slot, _STATE).same_dtype_as("x").as_optional()
    maker.add_output("x_grad", "as x").same_dtype_as("x").as_optional()
    for slot in ("weight_ih", "weight_hh"):
        maker.add_output(f"{slot}_grad", f"as {slot}").same_dtype_as("x")
        maker.as_duplicable().as_optional()
    for slot in ("bias_ih_grad", "bias_hh_grad"):
        maker.add_output(slot, "[4 * size]").same_dtype_as("x").as_duplicable().as_optional()
    for slot in ("h0_grad", "c0_grad"):
        maker.add_output(slot, _STATE).same_dtype_as("x").as_optional()
    maker.add_output("sums_grad", _GATES).same_dtype_as("x")
    return _with_attributes(maker)


LSTM_TRAIN = _forward().build(infer_shape=_forward_shape, plan_only=True)
LSTM_TRAIN_GRAD = _gradient().build(infer_shape=_gradient_shape, plan_only=True)
