"""Runs the operators that rows emit one by one, as functions of ``opwright_torch.ops``."""

from __future__ import annotations

from typing import Any

from opinfo_harness import Sample, Tensors, compile_sample

import opwright as ow
import opwright_torch
from opwright_torch.plans.building import draft


def run_eagerly(sample: Sample) -> tuple[list[Any], set[str]] | None:
    """Return the results of a sample and the operators that computed them.

    Return None if PyTorch computes part of the sample, or if it is random or mutates its inputs.
    """
    region = compile_sample(sample)
    drafted = draft(region.job, {})
    translated = drafted.translated
    if translated.declined or drafted.is_random or region.captured.mutations:
        return None
    values: dict[str, Any] = dict(translated.constants)
    values.update(zip(map(str, translated.inputs), sample.tensors))
    operators = drafted.program.global_block().ops
    for op in operators:
        _compute(op, values)
    computed = [values[name] for name in drafted.results]
    outputs = region.captured.outputs
    return [output.make(computed, sample.tensors, {}) for output in outputs], {
        op.type for op in operators
    }


def _compute(op: ow.Operator, values: dict[str, Any]) -> None:
    proto = op.definition.proto
    given: dict[str, Any] = {}
    for slot in proto.inputs:
        names = op.inputs.get(slot.name)
        if names:
            tensors = [values[name] for name in names]
            given[slot.name] = tensors if slot.duplicable else tensors[0]
    slots = [slot for slot in proto.outputs if op.outputs.get(slot.name)]
    returns = [slot.name for slot in slots]
    results = getattr(opwright_torch.ops, op.type)(**given, **op.attrs, returns=returns)
    for slot, value in zip(
        slots, [results] if len(slots) == 1 and slots[0].duplicable else results
    ):
        items: Tensors = list(value) if slot.duplicable else [value]
        values.update(zip(op.outputs[slot.name], items))
    for name in op.output_names():
        if op.block is not None and op.block.var(name).stop_gradient and name in values:
            values[name] = values[name].detach()
