"""What an optimizer cannot do with the gradient of which a process has a part."""

from __future__ import annotations

from collections.abc import Sequence

import opwright as ow
from opwright.errors import ProgramError
from opwright_nn.optimizer.clip import ClipByValue, GradientClip
from opwright_nn.optimizer.loss_scaling import has_loss_scale
from opwright_nn.parallel import find_divided

Pair = tuple[ow.Variable, ow.Variable]


def check_divided(
    who: str, pairs: Sequence[Pair], *, elementwise: bool, clip: GradientClip | None
) -> None:
    """Raise where a whole gradient must be known of which this process has a part.

    Parameters
    ----------
    who : str
        The optimizer, for messages.
    pairs : sequence of (Variable, Variable)
        Parameters and gradients; at least one.
    elementwise : bool
        Whether the optimizer updates each element by itself.
    clip : GradientClip, optional
        What it clips by.

    Raises
    ------
    ProgramError
        The optimizer, its clip or the scale of the loss needs the whole gradient.
    """
    divided = find_divided(pairs[0][0].block.program)
    name = next((parameter.name for parameter, _ in pairs if parameter.name in divided), None)
    if name is None:
        return
    if not elementwise:
        reader, way_out = "this optimizer", "train with Adam, for example"
    elif clip is not None and not isinstance(clip, ClipByValue):
        reader, way_out = f"clip={type(clip).__name__}", "clip with ClipByValue"
    elif has_loss_scale(gradient for _, gradient in pairs):
        reader, way_out = "a scaled loss", "train in bfloat16"
    else:
        return
    raise ProgramError(
        f"{who}: the gradient of {name!r} must be whole for {reader}, got the part of one process "
        f"of group {divided[name]!r}; {way_out}"
    )
