"""Every turn of a loop draws random numbers of its own: the step becomes a carried variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opwright.describe.completion import Slots, Wanted
from opwright.describe.vocabulary import ADD_N, FILL_LIKE, OUT, STEP, X

if TYPE_CHECKING:
    from opwright.describe.control import Loop
    from opwright.program.block import Block

_STRIDES: Final = (0x9E3779B1, 0xBB67AE85, 0x3C6EF373, 0xA54FF53B)
"""What a turn adds to the step, by depth. Random numbers go by 32 bits of the step; the multiples
of these lie far from each other there, so that turns do not meet those of the next runs.
"""


def carry_step(
    block: Block, control: Loop, inputs: Slots, outputs: Wanted, attrs: Mapping[str, Any]
) -> tuple[Slots, Wanted, dict[str, Any]]:
    """Return what a loop is made of, with the step among what it carries if its body reads it.

    In the body a variable of the same name stands for the step, which every turn raises; a gradient
    that runs backwards finds it as any other carried variable.
    """
    index = attrs.get(control.block)
    body = None if index is None else block.program.block(index)  # completion refuses None
    if body is None or STEP not in body.captured():
        return inputs, outputs, dict(attrs)
    stride, raised = (block.program.free_name(f"{STEP}/{word}") for word in ("stride", "next"))
    body.define_var(STEP, (1,), "int64")
    value = float(_STRIDES[_depth(body) % len(_STRIDES)])
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


def _depth(block: Block) -> int:
    depth = 0
    while block.parent is not None:
        block, depth = block.parent, depth + 1
    return depth
