"""Shapes that must broadcast to another shape."""

from __future__ import annotations

from opwright.op import InferContext, Shape, broadcast_shapes, format_shape, shapes_match


def require_broadcast(
    ctx: InferContext, slot: str, shape: Shape, target: str = "the shape of x, {}"
) -> None:
    """Raise an error for an input that does not broadcast to a shape.

    Parameters
    ----------
    slot : str
        The input.
    shape : tuple of int
        The shape to which it must broadcast.
    target : str
        The description of the shape in the error; ``{}`` is replaced by the shape.
    """
    given = ctx.input(slot).shape
    if len(given) > len(shape) or not shapes_match(broadcast_shapes(shape, given, ctx), shape):
        wanted = target.format(format_shape(shape))
        ctx.fail(f"{slot} must broadcast to {wanted}, got {format_shape(given)}")
