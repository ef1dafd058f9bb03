"""Whole numbers and bool where results are fractions: they become float32 first.

That is the whole rule of promotion, see decision 0149: what keeps elements keeps their dtype, what
adds whole numbers up has 64 bits, and what divides them gives float32.
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

COMMENT = "Whole numbers and bool become float32."


def fraction_dtype(dtype: str) -> str:
    """Return the dtype of fractions of this dtype: a float keeps its own."""
    return "float32" if dtype in WHOLE else dtype


def fraction_shape(*slots: str) -> Callable[[InferContext], None]:
    """Return the rule that out has the shape to which inputs broadcast, and a float dtype."""

    def infer_shape(ctx: InferContext) -> None:
        shape, dtype = ctx.input(slots[0])
        for slot in slots[1:]:
            shape = broadcast_shapes(shape, ctx.input(slot).shape, ctx)
        ctx.set_output("out", shape, fraction_dtype(dtype))

    infer_shape.__doc__ = f"out has the shape to which {', '.join(slots)} broadcast."
    return infer_shape


def in_fractions(body: Body | None = None) -> Body:
    """Return the body of an operator that takes whole numbers as float32, else this one."""

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
    """Add inputs of one dtype, any number or bool, and out, which is a float."""
    for slot in slots:
        others = " and ".join(name for name in slots if name != slot)
        maker.add_input(slot, f"any shape that broadcasts with {others}" if others else "any shape")
        if slot == slots[0]:
            maker.dtypes(*FLOATS, *WHOLE)
        else:
            maker.same_dtype_as(slots[0])
    shape = "the broadcast shape" if len(slots) > 1 else f"shape of {slots[0]}"
    return maker.add_output("out", f"{shape}; a float as {slots[0]} is, else float32").dtypes(
        *FLOATS
    )


def function(op_type: str, comment: str, gradient: Gradient, *slots: str) -> OpDefinition:
    """Return an element-wise function whose results are fractions, of x or of these inputs."""
    slots = slots or ("x",)
    maker = OpMaker(op_type).add_comment(f"{comment} {COMMENT}")
    return add_fractions(maker, *slots).build(
        infer_shape=fraction_shape(*slots), gradient=gradient, body=in_fractions()
    )
