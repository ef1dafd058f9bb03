"""Operators called on arrays drawn according to their OpProtos."""

from __future__ import annotations

import random
from typing import Any

from samples import change, definitions, draw_sample

import opwright as ow


def draw(rng: random.Random) -> dict[str, Any]:
    """Return one call."""
    sample = draw_sample(rng)
    inputs, attrs = change(rng, sample, rng.choice((0, 1, 1, 1, 2, 3)))
    return {"op": sample.op, "inputs": inputs, "attrs": attrs}


def run(case: dict[str, Any]) -> None:
    """Call the operator."""
    op = case["op"]
    slots = definitions()[op].proto.input_slots
    given = {}
    for name, arrays in case["inputs"].items():
        takes_list = name in slots and slots[name].duplicable
        given[name] = arrays if takes_list or len(arrays) != 1 else arrays[0]
    getattr(ow.ops, op)(**given, **case["attrs"])
