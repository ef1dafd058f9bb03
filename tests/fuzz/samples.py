"""Samples from which fuzzing starts: inputs and attributes of operators, most of them valid."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from mutations import Array, change_array, draw_array, draw_attr, draw_shape
from table import load_cases

import opwright as ow
from opwright.op import OpDefinition

MAX_ELEMENTS = 20_000


@dataclass(frozen=True)
class Sample:
    """The inputs (a list for each slot) and the attributes of one operator."""

    op: str
    inputs: dict[str, list[Array]]
    attrs: dict[str, Any]


@cache
def samples() -> dict[str, list[Sample]]:
    """Return samples from the table of test cases, by operator type."""
    found: dict[str, list[Sample]] = {}
    for case in load_cases():
        if "sections" in case.attrs and len(case.attrs["sections"]) > 100:
            continue
        for dtype in {case.dtypes[0], case.dtypes[-1]}:
            inputs = case.make_inputs(dtype)
            if sum(array.size for arrays in inputs.values() for array in arrays) <= MAX_ELEMENTS:
                sample = Sample(case.op, inputs, dict(case.attrs))
                found.setdefault(case.op, []).append(sample)
    return found


@cache
def definitions() -> dict[str, OpDefinition]:
    """Return every operator that can be called or appended, by type."""
    ops = ow.current_context().ops
    types = ops.types(all=True)
    derived = [f"{op_type}_grad" for op_type in types]
    every = {op_type: ops.find(op_type) for op_type in dict.fromkeys([*types, *derived])}
    every.pop("print")  # it would print each case
    return {op: found for op, found in every.items() if found is not None and not found.plan_only}


@cache
def _types() -> tuple[list[str], list[str]]:
    known = sorted(set(samples()) & set(definitions()))
    return known, sorted(definitions())


def draw_sample(rng: random.Random) -> Sample:
    """Return a sample of a random operator; most samples are valid."""
    known, every = _types()
    if rng.random() < 0.85:
        return rng.choice(samples()[rng.choice(known)])
    return invent(rng, definitions()[rng.choice(every)])


def invent(rng: random.Random, definition: OpDefinition) -> Sample:
    """Return a sample for an operator known only by its OpProto."""
    shape = draw_shape(rng)
    inputs: dict[str, list[Array]] = {}
    for slot in definition.proto.inputs:
        if slot.optional and rng.random() < 0.4:
            continue
        dtype = rng.choice(slot.dtypes) if slot.dtypes else "float32"
        dtype = dtype if dtype != "bfloat16" else "float32"
        count = rng.choice((1, 2, 3)) if slot.duplicable else 1
        near = shape if rng.random() < 0.7 else shape[:1]
        inputs[slot.name] = [draw_array(rng, dtype, near) for _ in range(count)]
    attrs = {a.name: draw_attr(rng, a) for a in definition.proto.attrs if a.required}
    return Sample(definition.op_type, inputs, attrs)


def change(rng: random.Random, sample: Sample, times: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the inputs by slot and the attributes of a sample, with some changes."""
    definition = definitions()[sample.op]
    inputs = {slot: list(arrays) for slot, arrays in sample.inputs.items()}
    attrs = dict(sample.attrs)
    for _ in range(times):
        kind = rng.random()
        if kind < 0.5 and inputs:
            _change_input(rng, inputs)
        elif kind < 0.95 and definition.proto.attrs:
            attr = rng.choice(definition.proto.attrs)
            attrs[attr.name] = draw_attr(rng, attr)
        elif inputs:
            _change_slots(rng, inputs)
    return inputs, attrs


def _change_input(rng: random.Random, inputs: dict[str, list[Any]]) -> None:
    arrays = inputs[rng.choice(list(inputs))]
    if arrays:
        place = rng.randrange(len(arrays))
        if isinstance(arrays[place], np.ndarray):
            arrays[place] = change_array(rng, arrays[place])


def _change_slots(rng: random.Random, inputs: dict[str, list[Any]]) -> None:
    slot = rng.choice(list(inputs))
    kind = rng.randrange(4)
    if kind == 0:
        del inputs[slot]
    elif kind == 1 and inputs[slot]:
        inputs[slot] = inputs[slot] * rng.choice((2, 3))
    elif kind == 2 and inputs[slot] and isinstance(inputs[slot][0], np.ndarray):
        inputs[slot] = [inputs[slot][0].tolist()]
    else:
        inputs[rng.choice(("y", "label", "nothing"))] = [draw_array(rng, "float32", (2,))]
