"""The gradient of a branch: an operator of the same type, whose bodies compute gradients.

Each body is a copy of the forward body, computed again, with gradient operators behind it. It reads
what the forward body read, and the gradients of the outputs; it gives the gradients of what the
forward body captured, zero where it gives none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opwright.backward.routing import find_route
from opwright.backward.versions import ForwardName, ForwardOp
from opwright.describe.control import Branch
from opwright.describe.vocabulary import FILL_LIKE, GRAD_SUFFIX, OUT, X
from opwright.errors import GradientError
from opwright.program import Block
from opwright.program.transforms import clone_block, drop_unused_vars, prune_block

if TYPE_CHECKING:
    from opwright.backward.walking import OutputGrads, Walk, Wanted


def differentiate_branch(
    walk: Walk, forward: ForwardOp, control: Branch, grads: OutputGrads, wanted: Wanted
) -> dict[tuple[str, int], str | None]:
    """Append the gradient of a branch and return the gradients of what it captured."""
    captured = forward.reads.get(control.captured, ())
    flags = wanted.get(control.captured, ())
    chosen = {key.name: index for index, key in reversed(list(enumerate(captured))) if flags[index]}
    prefix = f"{walk.prefix}{next(iter(forward.op.output_names()))}{GRAD_SUFFIX}/"
    given = grads[control.outputs]
    bodies: list[tuple[Block, dict[str, str]]] = []
    for block_attr, outputs_attr in control.blocks:
        body = clone_block(walk.block, _block_index(forward, block_attr))
        results = _names(forward, outputs_attr)
        if len(results) != len(given):
            raise GradientError(
                f"{forward}: {control.outputs} must have one variable for each of {outputs_attr}, "
                f"got {len(given)} for {len(results)}"
            )
        out_grads = [pair for pair in zip(results, given, strict=True) if pair[1] is not None]
        inner = _differentiate_body(walk, body, out_grads, list(chosen), prefix)
        bodies.append((body, _collect(walk, forward, inner)))
    found = [name for name in chosen if any(name in local for _, local in bodies)]
    if not found:
        return {}
    for body, local in bodies:
        _fill_zeros(body, local, found, prefix)
        prune_block(body, set(local.values()))
        drop_unused_vars(body, local.values())
    names = _emit(walk, forward, control, found, bodies)
    return {(control.captured, chosen[name]): grad for name, grad in zip(found, names, strict=True)}


def _block_index(forward: ForwardOp, attr: str) -> int:
    value = forward.op.attrs[attr]
    return value if isinstance(value, int) else 0


def _names(forward: ForwardOp, attr: str) -> tuple[str, ...]:
    value = forward.op.attrs.get(attr, ())
    return tuple(str(name) for name in value) if isinstance(value, tuple) else ()


def _differentiate_body(
    walk: Walk,
    body: Block,
    out_grads: Sequence[tuple[str, str | None]],
    wanted: Sequence[str],
    prefix: str,
) -> Walk:
    """Append backward operators to a cloned body, from the gradients of what leaves it."""
    route = find_route(body, [name for name, _ in out_grads], wanted, walk.route.stopped)
    inner = walk.within(route, prefix)
    for name, grad in out_grads:
        if grad is not None:
            inner.add(route.versions.last_key(name), grad)
    inner.run()
    return inner


def _collect(walk: Walk, forward: ForwardOp, inner: Walk) -> dict[str, str]:
    """Return the gradients that a body gives, by name, and note why it does not give others."""
    route = inner.route
    walk.reasons.extend(inner.reasons)
    for name, key in route.wanted.items():
        if key not in inner.grads:
            for blocking, stop in route.paths.find_blocks(key):
                walk.reasons.append(f"{name!r} in {forward}: {blocking}: {stop.reason}")
    return {name: inner.grads[key] for name, key in route.wanted.items() if key in inner.grads}


def _fill_zeros(body: Block, local: dict[str, str], found: Sequence[str], prefix: str) -> None:
    for name in found:
        if name not in local:
            free = body.program.free_name(prefix + name + GRAD_SUFFIX)
            body.append_op(FILL_LIKE, {X: name}, {OUT: free}, {"value": 0.0})
            local[name] = free


def _emit(
    walk: Walk,
    forward: ForwardOp,
    control: Branch,
    found: Sequence[str],
    bodies: Sequence[tuple[Block, dict[str, str]]],
) -> list[str]:
    attrs = dict(forward.op.attrs)
    reads: dict[str, None] = {}
    for (block_attr, outputs_attr), (body, local) in zip(control.blocks, bodies, strict=True):
        attrs[block_attr] = body.idx
        attrs[outputs_attr] = tuple(local[name] for name in found)
        reads.update(dict.fromkeys(body.captured()))
    keys = {key.name: key for key in forward.reads.get(control.captured, ())}
    captured: list[str] = [ForwardName.of(keys[name]) if name in keys else name for name in reads]
    condition: list[str] = [ForwardName.of(key) for key in forward.reads[control.condition]]
    inputs = {control.condition: condition, control.captured: captured}
    results = walk.emitter.emit(forward.op.type, inputs, {control.outputs: len(found)}, attrs)
    return results[control.outputs]
