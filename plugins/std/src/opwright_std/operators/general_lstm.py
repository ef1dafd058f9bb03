"""general_lstm: an LSTM with peepholes, bounded gates and projected states, step by step."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, Shape, format_shape, grad_op, shapes_match
from opwright_std.compositions import recurrent as recurrent_gradients
from opwright_std.numerics.dtypes import FLOATS, INDICES


def _wanted(ctx: InferContext, inputs: int) -> dict[str, tuple[Shape, Shape]]:
    """Return the parameter shapes of the first layer, and of the later layers."""
    hidden = ctx.inputs("weight_hh")[0].shape
    if len(hidden) != 2 or (hidden[0] >= 0 and hidden[0] % 4 > 0):
        ctx.fail(f"weight_hh 0 must be [4 * size, states], got {format_shape(hidden)}")
    rows, width = hidden
    size, joined = rows // 4 if rows >= 0 else -1, -1
    if width >= 0:
        joined = width * (1 + ctx.attr("bidirectional"))
    if not ctx.has_input("weight_hr") and not shapes_match((width,), (size,)):
        ctx.fail(
            f"weight_hh 0 must be [4 * size, size] without weight_hr, got {format_shape(hidden)}"
        )
    same = {
        "weight_hh": (rows, width),
        "bias_ih": (rows,),
        "bias_hh": (rows,),
        "peephole": (3 * size if size >= 0 else -1,),
        "weight_hr": (width, size),
    }
    return {
        "weight_ih": ((rows, inputs), (rows, joined)),
        **{slot: (shape, shape) for slot, shape in same.items()},
    }


def _general_lstm_shape(ctx: InferContext) -> None:
    """The output has all steps of the last layer; h_n and c_n are the final states."""
    x, directions = ctx.input("x").shape, 1 + ctx.attr("bidirectional")
    if len(x) != 3:
        order = "[n, t, inputs]" if ctx.attr("batch_first") else "[t, n, inputs]"
        ctx.fail(f"x must be {order}, got {format_shape(x)}")
    steps, n = (x[1], x[0]) if ctx.attr("batch_first") else (x[0], x[1])
    if steps == 0:
        ctx.fail(f"x must have at least 1 step, got {format_shape(x)}")
    count, wanted = len(ctx.inputs("weight_ih")), _wanted(ctx, x[2])
    if count % directions != 0:
        ctx.fail(f"weight_ih must hold {directions} for each layer, got {count}")
    for slot, shapes in wanted.items():
        metas = ctx.inputs(slot)
        if metas and len(metas) != count:
            ctx.fail(f"{slot} must have as many elements as weight_ih, {count}, got {len(metas)}")
        for i, meta in enumerate(metas):
            shape = shapes[i >= directions]
            if not shapes_match(meta.shape, shape):
                got = format_shape(meta.shape)
                ctx.fail(f"{slot} {i} must be {format_shape(shape)}, got {got}")
    (width, size), _ = wanted["weight_hr"]
    if ctx.has_input("lengths"):
        ctx.require_shape("lengths", (n,))
    for slot, last in (("h0", width), ("c0", size)):
        ctx.require_shape(slot, (count, n, last))
    joined = width * directions if width >= 0 else -1
    ctx.set_output("out", (n, steps, joined) if ctx.attr("batch_first") else (steps, n, joined))
    ctx.set_output("h_n", (count, n, width))
    ctx.set_output("c_n", (count, n, size))


def _general_lstm_maker() -> OpMaker:
    maker = OpMaker("general_lstm").add_comment(
        "lstm with optional extensions: peephole * old cell is added to i and f, peephole * new "
        "cell to o (Gers and Schmidhuber, 2000); all four gates are clipped to [-clip, clip] "
        "before their functions; and the state is weight_hr @ (sigmoid(o) * tanh(c)) (Sak et al., "
        "2014). Lists of parameters and lengths are as in lstm, which is faster."
    )
    maker.add_input("x", "float [t, n, inputs], with batch_first [n, t, inputs]").dtypes(*FLOATS)
    rows = "[4 * size, "
    maker.add_input("weight_ih", f"{rows}inputs]; after the first layer {rows}directions * states]")
    maker.same_dtype_as("x").as_duplicable()
    maker.add_input("weight_hh", f"{rows}states]").same_dtype_as("x").as_duplicable()
    for slot, shape in (
        ("bias_ih", "[4 * size]"),
        ("bias_hh", "[4 * size]"),
        ("peephole", "[3 * size], peephole weights of i, f and o"),
        ("weight_hr", "[states, size]; without it, states = size"),
    ):
        maker.add_input(slot, shape).same_dtype_as("x").as_duplicable().as_optional()
    for slot, last in (("h0", "states"), ("c0", "size")):
        maker.add_input(slot, f"[layers * directions, n, {last}]; absent counts as 0")
        maker.same_dtype_as("x").as_optional()
    maker.add_input("lengths", "[n], from 0 to t; absent: all t").dtypes(*INDICES).as_optional()
    maker.add_output("out", "[t, n, directions * states], with batch_first [n, t, ...]")
    maker.same_dtype_as("x")
    for slot, last in (("h_n", "states"), ("c_n", "size")):
        maker.add_output(slot, f"[layers * directions, n, {last}]").same_dtype_as("x")
    maker.add_attr("bidirectional", bool, "whether a second direction runs backward")
    maker.default(False)
    maker.add_attr("batch_first", bool, "whether n precedes t").default(False)
    return (
        maker.add_attr("clip", float, "clipping bound of the gates; 0: none")
        .default(0.0)
        .at_least(0.0)
    )


GENERAL_LSTM = _general_lstm_maker().build(
    infer_shape=_general_lstm_shape,
    gradient=grad_op(
        "general_lstm_grad",
        needs=[
            *("x", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "peephole", "weight_hr"),
            *("h0", "c0", "lengths"),
        ],
        body=recurrent_gradients.LSTM,
    ),
    body=recurrent_gradients.lstm_body,
)
