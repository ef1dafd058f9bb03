"""Samples of gradient operators, derived from the samples of their forward operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np

from opwright import Context
from opwright.errors import OpwrightError
from opwright.op import GradOp, OpDefinition, grad_name
from opwright.vocabulary import GRAD_SUFFIX
from opwright_kit.testing.samples.sample import Array, Sample


def find_forward(op_type: str, context: Context) -> OpDefinition | None:
    """Return the operator that ``<type>_grad`` differentiates, or None for any other operator."""
    if not op_type.endswith(GRAD_SUFFIX):
        return None
    forward = context.ops.find(op_type.removesuffix(GRAD_SUFFIX))
    rule = None if forward is None else forward.gradient
    return forward if isinstance(rule, GradOp) and rule.type == op_type else None


def make_gradient_sample(
    forward: OpDefinition,
    definition: OpDefinition,
    sample: Sample,
    outputs: Mapping[str, Sequence[Array]],
    seed: int,
) -> Sample | None:
    """Return a sample of the gradient operator, or None if the sample would have no gradient.

    Its inputs are the inputs of the forward sample, the outputs computed from them, and random
    numbers as the gradients of these outputs.
    """
    rng = np.random.default_rng([seed, crc32(definition.op_type.encode()), sample.number])
    inputs: dict[str, tuple[Array, ...]] = {}
    for slot in definition.proto.inputs:
        if slot.name in forward.input_index:
            inputs[slot.name] = sample.inputs.get(slot.name, ())
        elif slot.name in outputs:
            inputs[slot.name] = tuple(outputs[slot.name])
        else:
            arrays = outputs[slot.name.removesuffix(GRAD_SUFFIX)]
            inputs[slot.name] = tuple(_normal(array, rng) for array in arrays)
    counts = {
        grad_name(slot): len(arrays) if any(map(_is_float, arrays)) else 0
        for slot, arrays in ((s.name, sample.inputs.get(s.name, ())) for s in forward.proto.inputs)
        if grad_name(slot) in definition.output_index
    }
    present = {slot: arrays for slot, arrays in inputs.items() if arrays}
    derived = replace(
        sample, op_type=definition.op_type, inputs=present, outputs=counts, forward=sample
    )
    try:
        derived.infer(definition)
    except OpwrightError:
        return None
    return derived if any(counts.values()) else None


def replace_outputs(sample: Sample, outputs: Mapping[str, Sequence[Array]]) -> Sample:
    """Return a sample of a gradient operator with new numbers in the forward outputs it reads."""
    inputs = {
        slot: tuple(
            other if slot in outputs and _is_float(array) else array
            for array, other in zip(arrays, outputs.get(slot, arrays), strict=True)
        )
        for slot, arrays in sample.inputs.items()
    }
    return replace(sample, inputs=inputs)


def _normal(array: Array, rng: np.random.Generator) -> Array:
    return np.asarray(rng.standard_normal(array.shape)).astype(array.dtype)


def _is_float(array: Array) -> bool:
    return array.dtype.kind in "fV"  # V: bfloat16, unknown to NumPy
