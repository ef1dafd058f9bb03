"""Appends operators to programs with known and unknown dimensions, then compiles and runs them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from samples import change, definitions, draw_sample

import opwright as ow


def draw(rng: random.Random) -> dict[str, Any]:
    """Return one operator with the shapes that its program declares."""
    sample = draw_sample(rng)
    inputs, attrs = change(rng, sample, rng.choice((0, 1, 1, 2)))
    declared = {slot: [_declare(rng, array) for array in arrays] for slot, arrays in inputs.items()}
    outputs = {
        slot.name: rng.choice((1, 1, 1, 2, 3)) if slot.duplicable else 1
        for slot in definitions()[sample.op].proto.outputs
        if slot.duplicable or (slot.optional and rng.random() < 0.5)
    }
    return {
        "op": sample.op,
        "inputs": inputs,
        "attrs": attrs,
        "declared": declared,
        "outputs": outputs,
    }


def _declare(rng: random.Random, array: Any) -> list[int] | None:
    """Return the shape of an array in the program; the shape is sometimes unknown or wrong."""
    if not isinstance(array, np.ndarray) or rng.random() < 0.03:
        return None
    shape = [-1 if rng.random() < 0.15 else dim for dim in array.shape]
    if shape and rng.random() < 0.05:
        shape[rng.randrange(len(shape))] = rng.choice((0, 1, 2, 2**40, 2**62))
    return shape


def run(case: dict[str, Any]) -> None:
    """Append the operator, compile its block and run it."""
    program = ow.Program(seed=1)
    block = program.global_block()
    feeds: dict[str, Any] = {}
    inputs: dict[str, list[str]] = {}
    for slot, arrays in case["inputs"].items():
        for i, (array, shape) in enumerate(zip(arrays, case["declared"][slot], strict=True)):
            name = f"{slot}_{i}"
            dtype = array.dtype if isinstance(array, np.ndarray) else "float32"
            block.create_var(name, shape, dtype)
            feeds[name] = array
            inputs.setdefault(slot, []).append(name)
    outputs = {slot: [f"{slot}_out_{i}" for i in range(n)] for slot, n in case["outputs"].items()}
    op = block.append_op(case["op"], inputs, outputs, case["attrs"])
    str(program)
    fetch = [name for names in op.outputs.values() for name in names]
    ow.Network(block).compile(feed=list(feeds), fetch=fetch, scope=ow.Scope())(**feeds)
