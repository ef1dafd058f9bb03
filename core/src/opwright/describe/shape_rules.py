"""Shape rules that many operators share, for `OpMaker.build`."""

from __future__ import annotations

from opwright.describe.definition import InferShape
from opwright.describe.meta import InferContext, broadcast_shapes


def same_shape_as(slot: str, *outputs: str) -> InferShape:
    """Return the rule that outputs have the shape of an input.

    Parameters
    ----------
    slot : str
        The input.
    *outputs : str
        The outputs; all of them where none is named.
    """

    def infer_shape(ctx: InferContext) -> None:
        shape = ctx.input(slot).shape
        for name in outputs or ctx.output_slots:
            ctx.set_output(name, shape)

    whose = ", ".join(outputs) if outputs else "Every output"
    infer_shape.__doc__ = f"{whose} has the shape of {slot}."
    return infer_shape


def elementwise_shape(*slots: str, out: str = "out", dtype: str | None = None) -> InferShape:
    """Return the rule that an output has the shape to which the inputs broadcast.

    Parameters
    ----------
    *slots : str
        The inputs, ``"x", "y"`` where none is named; absent ones are skipped.
    out : str
        The output.
    dtype : str, optional
        Its dtype, where the OpProto leaves it open.
    """
    names = slots or ("x", "y")

    def infer_shape(ctx: InferContext) -> None:
        shape = ctx.input(names[0]).shape
        for name in names[1:]:
            if ctx.has_input(name):
                shape = broadcast_shapes(shape, ctx.input(name).shape, ctx)
        ctx.set_output(out, shape, dtype)

    infer_shape.__doc__ = f"{out} has the shape to which {', '.join(names)} broadcast, as in NumPy."
    return infer_shape
