"""Turns a loop that recomputes its turns for the gradient into a loop over segments of turns.

Each turn of the new loop runs the old loop over some elements. Of such a turn the gradient keeps
only what enters it, and computes the turns within again.
"""

from __future__ import annotations

from functools import partial
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
    segment = place.program.block(attrs[control.block])
    body = clone_block(segment, segment.idx)
    clear_block(segment)
    attrs[control.block] = body.idx
    define = partial(_define_like, segment, body, f"{forward.first_output}/segment")
    init = define(names_in(attrs, control.block_inputs), "in")
    finals = define(names_in(attrs, control.block_outputs), "out")
    sequences = define(names_in(attrs, control.block_elements), "in", segmented=True)
    outputs, stacked = {control.outputs: finals}, {}
    for slot, attr in control.stacks:
        stacked[attr] = define(names_in(attrs, attr), "out", segmented=True)
        outputs[slot] = stacked[attr]
    inputs = {
        control.carried: init,
        str(control.sequences): sequences,
        control.captured: op.inputs.get(control.captured, ()),
    }
    definition = op.definition
    turns = Operator.make(
        segment,
        definition,
        {slot: inputs[slot] for slot in definition.input_index if inputs.get(slot)},
        {slot: outputs[slot] for slot in definition.output_index if outputs.get(slot)},
        attrs,
    )
    segment.replace_ops([turns])
    segmented = (*sequences, *(name for names in stacked.values() for name in names))
    outer_attrs: dict[str, Any] = {
        **attrs,
        control.block: segment.idx,
        control.block_inputs: init,
        control.block_outputs: finals,
        str(control.block_elements): sequences,
        str(control.segment): rows,
        str(control.segmented): segmented,
        **stacked,
    }
    new = Operator.make(place, definition, dict(op.inputs), dict(op.outputs), outer_attrs)
    place.replace_op(op, new)
    forward.op = new


def _define_like(
    segment: Block,
    body: Block,
    prefix: str,
    names: tuple[str, ...],
    word: str,
    *,
    segmented: bool = False,
) -> tuple[str, ...]:
    """Define variables like those of the body in a segment, or arrays of them; return names."""
    new_names = []
    for name in names:
        like = body.var(name)
        shape = like.shape
        if segmented and shape is not None:
            shape = (-1, *shape)
        new_names.append(segment.program.free_name(f"{prefix}/{name}/{word}"))
        segment.define_var(new_names[-1], shape, like.dtype)
    return tuple(new_names)
