"""Gradient operators with inconsistent inputs: shapes, dtypes, indices out of range."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
from mutations import change_array, draw_attr
from samples import definitions, samples

import opwright as ow
from opwright.errors import OpwrightError

from . import appended


@cache
def _graded() -> list[str]:
    """Return the operators with a separate gradient operator."""
    return [op for op in sorted(samples()) if op in definitions() and f"{op}_grad" in definitions()]


def draw(rng: random.Random) -> dict[str, Any]:
    """Return a gradient operator on the values of its forward operator, some of them changed."""
    listed = samples()[rng.choice(_graded())]
    number = rng.randrange(len(listed))
    sample = listed[number]
    gradient = definitions()[f"{sample.op}_grad"]
    known = {**_outputs(sample.op, number), **sample.inputs}
    inputs: dict[str, list[Any]] = {}
    for slot in gradient.proto.inputs:
        arrays = known.get(slot.name)
        if arrays is None and slot.name.endswith("_grad"):
            arrays = known.get(slot.name.removesuffix("_grad"))
        if not arrays or (slot.optional and rng.random() < 0.1):
            continue
        inputs[slot.name] = list(arrays)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        arrays = inputs[rng.choice(list(inputs))] if inputs else []
        if arrays:
            place = rng.randrange(len(arrays))
            arrays[place] = change_array(rng, arrays[place])
    attrs = {a.name: sample.attrs[a.name] for a in gradient.proto.attrs if a.name in sample.attrs}
    if gradient.proto.attrs and rng.random() < 0.15:
        attr = rng.choice(gradient.proto.attrs)
        attrs[attr.name] = draw_attr(rng, attr)
    declared = {slot: [list(a.shape) for a in arrays] for slot, arrays in inputs.items()}
    outputs = {}
    for slot in gradient.proto.outputs:
        forward = inputs.get(slot.name.removesuffix("_grad"), [0])
        if not slot.optional or rng.random() < 0.9:
            outputs[slot.name] = len(forward) if slot.duplicable else 1
    return {
        "op": gradient.op_type,
        "inputs": inputs,
        "attrs": attrs,
        "declared": declared,
        "outputs": outputs,
    }


@cache
def _outputs(op: str, number: int) -> dict[str, list[np.ndarray]]:
    """Return the forward results by slot; empty if the forward operator refuses the sample."""
    sample = samples()[op][number]
    block = ow.Program(seed=1).global_block()
    feeds = {}
    inputs: dict[str, list[str]] = {}
    for slot, arrays in sample.inputs.items():
        for i, array in enumerate(arrays):
            block.create_var(f"{slot}_{i}", array.shape, array.dtype)
            feeds[f"{slot}_{i}"] = array
            inputs.setdefault(slot, []).append(f"{slot}_{i}")
    proto = definitions()[op].proto
    named = {s.name: [f"{s.name}_out"] for s in proto.outputs if not s.duplicable}
    try:
        made = block.append_op(op, inputs, named, sample.attrs)
        fetch = [name for names in made.outputs.values() for name in names]
        results = ow.Network(block).compile(feed=list(feeds), fetch=fetch, scope=ow.Scope())(
            **feeds
        )
    except OpwrightError:
        return {}
    arrays = dict(zip(fetch, results, strict=True))
    return {slot: [arrays[name] for name in names] for slot, names in made.outputs.items()}


run = appended.run
