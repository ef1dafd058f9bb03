"""Lets every turn of a loop draw different random numbers: the loop carries the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opwright.describe.completion import Slots, Wanted
from opwright.vocabulary import ADD_N, FILL_LIKE, OUT, STEP, X

if TYPE_CHECKING:
    from opwright.describe.control import Loop
    from opwright.program.block import Block

_STRIDES: Final = (0x9E3779B1, 0xBB67AE85, 0x3C6EF373, 0xA54FF53B)
"""What a turn adds to the step, by depth. Random numbers depend on 32 bits of the step; multiples
of these lie far from each other there, so that no turn has the step of a later run.
"""


def carry_step(
    block: Block, control: Loop, inputs: Slots, outputs: Wanted, attrs: Mapping[str, Any]
) -> tuple[Slots, Wanted, dict[str, Any]]:
    """Return the slots and attributes of a loop that also carries the step if its body reads it.

    The body has a variable of the same name for the step, which every turn raises; the gradient of
    the loop reads it like any other carried variable.
    """
    index = attrs.get(control.block)
    body = None if index is None else block.program.block(index)  # completion refuses None
    if body is None or STEP not in body.captured():
        return inputs, outputs, dict(attrs)
    stride, raised = (block.program.free_name(f"{STEP}/{word}") for word in ("stride", "next"))
    body.define_var(STEP, (1,), "int64")
    value = float(_STRIDES[body.depth % len(_STRIDES)])
    body.append_op(FILL_LIKE, {X: STEP}, {OUT: stride}, {"value": value})
    body.append_op(ADD_N, {X: [STEP, stride]}, {OUT: raised})
    given = outputs.get(control.outputs, ())
    last = block.program.free_name(f"{STEP}/last")
    more: dict[str, Any] = {
        control.outputs: given + 1 if isinstance(given, int) else (*given, last)
    }
    carried = {
        control.block_inputs: [*(attrs.get(control.block_inputs) or ()), STEP],
        control.block_outputs: [*(attrs.get(control.block_outputs) or ()), raised],
    }
    inputs = {**inputs, control.carried: (*inputs.get(control.carried, ()), STEP)}
    return inputs, {**outputs, **more}, {**attrs, **carried}
