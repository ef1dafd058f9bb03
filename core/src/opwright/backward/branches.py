"""The gradient of a branch: an operator of the same type with bodies that compute gradients.

Each body is a copy of the forward body, recomputed, followed by gradient operators. A body reads
the inputs of the forward body and the gradients of the outputs, and returns the gradients of the
captured variables. A gradient that a body does not compute is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opwright.backward.emitting import append_zeros
from opwright.backward.routing import ForwardName, ForwardOp, find_route
from opwright.describe.control import Branch, names_in
from opwright.errors import GradientError
from opwright.program import Block
from opwright.program.transforms import clone_block, drop_unused_vars, prune_block
from opwright.vocabulary import GRAD_SUFFIX

if TYPE_CHECKING:
    from opwright.backward.walking import InputGrads, OutputGrads, Walk, Wanted


def differentiate_branch(
    walk: Walk, forward: ForwardOp, control: Branch, grads: OutputGrads, wanted: Wanted
) -> InputGrads:
    """Append the gradient of a branch and return the gradients of its captured variables."""
    positions = forward.wanted_positions(control.captured, wanted)
    prefix = f"{walk.prefix}{forward.first_output}{GRAD_SUFFIX}/"
    given = grads[control.outputs]
    bodies: list[tuple[Block, dict[str, str]]] = []
    for block_attr, outputs_attr in control.blocks:
        body = clone_block(walk.block, forward.attrs[block_attr])
        leaving = names_in(forward.attrs, outputs_attr)
        if len(leaving) != len(given):
            raise GradientError(
                f"{forward}: {control.outputs} must have one variable for each of {outputs_attr}, "
                f"got {len(given)} variables for {len(leaving)}"
            )
        out_grads = [(name, grad) for name, grad in zip(leaving, given, strict=True) if grad]
        inner = _differentiate_body(walk, body, out_grads, list(positions), prefix)
        bodies.append((body, walk.collect(inner, forward)[0]))
    names = [name for name in positions if any(name in local for _, local in bodies)]
    if not names:
        return {}
    for body, local in bodies:
        for name in names:
            if name not in local:
                local[name] = append_zeros(body, name, prefix + name + GRAD_SUFFIX)
        prune_block(body, set(local.values()))
        drop_unused_vars(body, local.values())
    results = _emit(walk, forward, control, names, bodies)
    pairs = zip(names, results, strict=True)
    return {(control.captured, positions[name]): grad for name, grad in pairs}


def _differentiate_body(
    walk: Walk,
    body: Block,
    out_grads: Sequence[tuple[str, str]],
    wanted: Sequence[str],
    prefix: str,
) -> Walk:
    """Append gradient operators to a cloned body, from the gradients of its results."""
    route = find_route(body, [name for name, _ in out_grads], wanted, walk.route.stopped)
    inner = type(walk)(route, prefix)
    for name, grad in out_grads:
        inner.add(route.versions.last_key(name), grad)
    inner.run()
    return inner


def _emit(
    walk: Walk,
    forward: ForwardOp,
    control: Branch,
    names: Sequence[str],
    bodies: Sequence[tuple[Block, dict[str, str]]],
) -> Sequence[str]:
    attrs = dict(forward.attrs)
    reads: dict[str, None] = {}
    for (block_attr, outputs_attr), (body, local) in zip(control.blocks, bodies, strict=True):
        attrs[block_attr] = body.idx
        attrs[outputs_attr] = tuple(local[name] for name in names)
        reads.update(dict.fromkeys(body.captured()))
    inputs: dict[str, Sequence[str]] = {
        control.condition: [ForwardName.of(key) for key in forward.reads[control.condition]],
        control.captured: [forward.captured_name(control.captured, name) for name in reads],
    }
    outputs = {control.outputs: len(names)}
    return walk.emitter.emit(forward.op.type, inputs, outputs, attrs)[control.outputs]
