"""A loop whose gradient computes its turns again becomes a loop over segments of these turns.

Each turn of the new loop runs the old one over some elements. What the gradient keeps of such a
turn is what enters it; the turns within are computed again.
"""

from __future__ import annotations

from typing import Any

from opwright.backward.versions import ForwardOp
from opwright.describe.control import Loop, names_in
from opwright.program import Block, Operator
from opwright.program.transforms import clear_block, clone_block


def segment_turns(forward: ForwardOp, control: Loop, place: Block) -> None:
    """Put a loop over segments in the place of one that has `checkpoint_every`."""
    op = forward.op
    attrs: dict[str, Any] = dict(op.attrs)
    rows = attrs.pop(str(control.checkpoint_every))
    attrs.pop(str(control.max_iterations), None)  # a segment has its own number of turns
    segment = place.program.block(attrs[control.block])  # a block lies within an earlier one
    body = clone_block(segment, segment.idx)
    clear_block(segment)
    attrs[control.block] = body.idx
    inner = _Inner(segment, body, next(iter(op.output_names())))
    init = inner.define(names_in(attrs, control.block_inputs), "in")
    finals = inner.define(names_in(attrs, control.block_outputs), "out")
    sequences = inner.define(names_in(attrs, control.block_elements), "in", segmented=True)
    outputs, stacked = {control.outputs: finals}, {}
    for slot, attr in control.stacks:
        stacked[attr] = inner.define(names_in(attrs, attr), "out", segmented=True)
        outputs[slot] = stacked[attr]
    inputs = {
        control.carried: init,
        str(control.sequences): sequences,
        control.captured: op.inputs.get(control.captured, ()),
    }
    slots = op.definition
    turns = Operator.make(
        segment,
        slots,
        {slot: inputs[slot] for slot in slots.input_index if inputs.get(slot)},
        {slot: outputs[slot] for slot in slots.output_index if outputs.get(slot)},
        attrs,
    )
    segment.replace_ops([turns])
    changed: dict[str, Any] = {
        control.block: segment.idx,
        control.block_inputs: init,
        control.block_outputs: finals,
        str(control.block_elements): sequences,
        str(control.segment): rows,
        str(control.segmented): (
            *sequences,
            *(name for names in stacked.values() for name in names),
        ),
        **stacked,
    }
    new = Operator.make(place, slots, dict(op.inputs), dict(op.outputs), {**attrs, **changed})
    place.replace_ops([new if other is op else other for other in place.ops])
    forward.op = new


class _Inner:
    """Defines in the block of a segment what its loop reads and writes."""

    def __init__(self, segment: Block, body: Block, prefix: str) -> None:
        self._segment = segment
        self._body = body
        self._prefix = prefix

    def define(
        self, names: tuple[str, ...], word: str, *, segmented: bool = False
    ) -> tuple[str, ...]:
        """Return new variables like those of the body, or arrays of them."""
        defined = []
        for name in names:
            like = self._body.var(name)
            shape = like.shape
            if segmented and shape is not None:
                shape = (-1, *shape)
            free = self._segment.program.free_name(f"{self._prefix}/segment/{name}/{word}")
            self._segment.define_var(free, shape, like.dtype)
            defined.append(free)
        return tuple(defined)
