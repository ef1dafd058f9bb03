"""Conversion of integers and bool to float32 in operators with fractional results.

The conversion is the only type promotion (decision 0149). Operators that select elements keep the
dtype, sums of integers have 64 bits, and quotients are float32.
"""

from __future__ import annotations

from collections.abc import Callable

from opwright.op import (
    BodyContext,
    GradientContext,
    GradOp,
    InferContext,
    NoGradient,
    OpDefinition,
    OpMaker,
    broadcast_shapes,
)
from opwright_std.numerics.dtypes import FLOATS, WHOLE

Body = Callable[[BodyContext], "bool | None"]
Gradient = GradOp | NoGradient | Callable[[GradientContext], None]

COMMENT = "Integers and bool become float32."


def fraction_dtype(dtype: str) -> str:
    """Return the dtype of fractional results: float32 for integers and bool, otherwise `dtype`."""
    return "float32" if dtype in WHOLE else dtype


def fraction_shape(*slots: str) -> Callable[[InferContext], None]:
    """Return the shape rule of a broadcast output with a float dtype."""

    def infer_shape(ctx: InferContext) -> None:
        shape, dtype = ctx.input(slots[0])
        for slot in slots[1:]:
            shape = broadcast_shapes(shape, ctx.input(slot).shape, ctx)
        ctx.set_output("out", shape, fraction_dtype(dtype))

    infer_shape.__doc__ = f"out has the broadcast shape of {', '.join(slots)}."
    return infer_shape


def in_fractions(body: Body | None = None) -> Body:
    """Return a body that converts integers to float32 first."""

    def write(b: BodyContext) -> bool | None:
        metas = {name: b.meta(name) for slot in b.proto.inputs for name in b.inputs(slot.name)}
        if all(meta is None or meta.dtype not in WHOLE for meta in metas.values()):
            return False if body is None else body(b)
        floats = {name: b.emit("cast", {"x": name}, attrs={"dtype": "float32"}) for name in metas}
        inputs = {slot.name: [floats[n] for n in b.inputs(slot.name)] for slot in b.proto.inputs}
        outputs = {slot.name: b.outputs(slot.name) for slot in b.proto.outputs}
        b.emit_multi(b.type, inputs, {n: names for n, names in outputs.items() if names}, b.attrs)
        return None

    return write


def add_fractions(maker: OpMaker, *slots: str) -> OpMaker:
    """Add inputs that share a numeric dtype or bool, and a float output."""
    for slot in slots:
        others = " and ".join(name for name in slots if name != slot)
        maker.add_input(slot, f"any shape that broadcasts with {others}" if others else "any shape")
        if slot == slots[0]:
            maker.dtypes(*FLOATS, *WHOLE)
        else:
            maker.same_dtype_as(slots[0])
    shape = "the broadcast shape" if len(slots) > 1 else f"shape of {slots[0]}"
    return maker.add_output(
        "out", f"{shape}; dtype of {slots[0]} if it is a float, else float32"
    ).dtypes(*FLOATS)


def function(op_type: str, comment: str, gradient: Gradient, *slots: str) -> OpDefinition:
    """Return an element-wise function of `slots`, x by default, with fractional results."""
    slots = slots or ("x",)
    maker = OpMaker(op_type).add_comment(f"{comment} {COMMENT}")
    return add_fractions(maker, *slots).build(
        infer_shape=fraction_shape(*slots), gradient=gradient, body=in_fractions()
    )
