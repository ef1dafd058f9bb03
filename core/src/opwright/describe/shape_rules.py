"""Shape rules that many operators share, for `OpMaker.build`, and advice for wrong shapes."""

from __future__ import annotations

from collections.abc import Sequence

from opwright.describe.definition import InferShape
from opwright.describe.meta import InferContext, broadcast_shapes, shapes_match


def same_shape_as(slot: str, *outputs: str) -> InferShape:
    """Return a shape rule that gives outputs the shape of an input.

    Parameters
    ----------
    slot : str
        The input.
    *outputs : str
        The outputs; by default all outputs.
    """

    def infer_shape(ctx: InferContext) -> None:
        shape = ctx.input(slot).shape
        for name in outputs or ctx.output_slots:
            ctx.set_output(name, shape)

    whose = ", ".join(outputs) if outputs else "Every output"
    infer_shape.__doc__ = f"{whose} has the shape of {slot}."
    return infer_shape


def elementwise_shape(*slots: str, out: str = "out", dtype: str | None = None) -> InferShape:
    """Return a shape rule that gives an output the broadcast shape of the inputs.

    Parameters
    ----------
    *slots : str
        The inputs; by default ``"x"`` and ``"y"``. Absent inputs are skipped.
    out : str
        The output.
    dtype : str, optional
        Its dtype, if the OpProto does not determine it.
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


def advise_shape(name: str, wanted: Sequence[int], got: Sequence[int]) -> str:
    """Return advice for an array with a different shape than its variable.

    The axes most often forgotten are a last axis of size 1 and the batch axis of a single example.
    """
    wanted, got = tuple(wanted), tuple(got)
    if len(got) + 1 == len(wanted) and wanted[-1] == 1 and shapes_match(got, wanted[:-1]):
        return f"pass {name}.reshape({', '.join(map(str, (-1, *got[1:], 1)))})"
    if len(got) == len(wanted) + 1 and got[-1] == 1 and shapes_match(got[:-1], wanted):
        return f"pass {name}[..., 0]"
    if len(got) + 1 == len(wanted) and wanted[0] < 0 and shapes_match(got, wanted[1:]):
        return f"pass {name}[None], a batch of one"
    if len(got) == len(wanted) > 2 and shapes_match((got[0], got[-1], *got[1:-1]), wanted):
        order = {3: "NLC", 4: "NHWC"}.get(len(got), "NDHWC")
        axes = (0, len(got) - 1, *range(1, len(got) - 1))
        return f"pass {name}.transpose{axes}, or set data_format={order!r} to layers of images"
    return "pass arrays of the declared shape, or declare a different shape"
