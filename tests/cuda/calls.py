"""Runs a single operator on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import opwright as ow
from opwright.op import dtype_from_numpy


def call(
    op_type: str,
    inputs: Mapping[str, Any],
    outputs: str | Mapping[str, int] = "out",
    device: str = "cuda",
    **attrs: Any,
) -> list[Any]:
    """Run an operator and return its outputs in slot order.

    Parameters
    ----------
    op_type : str
        The operator type.
    inputs : mapping
        An array for each slot, or a list of them.
    outputs : str or mapping
        Slots with one output each, separated by spaces; or the number of outputs by slot.
    device : str
        The device to run on.
    **attrs
        Attributes.
    """
    block = ow.Program().global_block()
    feeds: dict[str, Any] = {}
    slots: dict[str, list[str]] = {}
    for slot, given in inputs.items():
        for array in given if isinstance(given, list) else [given]:
            name = f"{slot}_{len(feeds)}"
            feeds[name] = np.asarray(array)
            block.create_var(name, feeds[name].shape, dtype_from_numpy(feeds[name].dtype))
            slots.setdefault(slot, []).append(name)
    counts = dict.fromkeys(outputs.split(), 1) if isinstance(outputs, str) else outputs
    made = {slot: [f"{slot}_{i}" for i in range(n)] for slot, n in counts.items()}
    wanted = {slot: [f"made_{name}" for name in names] for slot, names in made.items()}
    for slot in ow.current_context().ops.get(op_type).proto.outputs:
        if slot.aliases and slot.name in wanted:
            wanted[slot.name] = slots[slot.aliases]
    block.append_op(op_type, slots, wanted, attrs)
    fetch = [name for names in wanted.values() for name in names]
    return ow.Network(block).compile(feed=list(feeds), fetch=fetch, device=device)(**feeds)
