"""Samples drawn from operator descriptions match the peers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from case import Case
from compare import check
from one_operator import Target
from peer import Peer, as_case
from table import standard_types
from test_table import NO_PEER

import opwright as ow
from opwright_kit.testing import Sample, draw_samples
from opwright_std.samples import SAMPLES

SEED = 11
MOST_ELEMENTS = 20_000


def kernels() -> Iterator[Any]:
    """Yield every operator with each dtype and library for which it has a CPU kernel."""
    context = ow.current_context()
    for op_type in standard_types():
        found = {
            (entry.dtype, entry.library)
            for entry in context.kernels.entries(op_type)
            if entry.device == "cpu"
        }
        if context.ops.get(op_type).body is not None:
            found = {(dtype, None) for dtype in ("float32", "float64")}
        for dtype, library in sorted(found, key=str):
            for name in ("float32", "int64", "bool") if dtype == "*" else (dtype,):
                yield pytest.param(op_type, name, library, id=f"{op_type}-{name}-{library}")


@cache
def draw(op_type: str, dtype: str) -> list[Sample]:
    """Return samples of an operator that are small enough to be compared quickly."""
    definition = ow.current_context().ops.get(op_type)
    samples = draw_samples(definition, dtype, SEED, SAMPLES.get(op_type))
    return [
        sample
        for sample in samples
        if sum(array.size for arrays in sample.inputs.values() for array in arrays) <= MOST_ELEMENTS
    ]


@pytest.mark.parametrize(("op_type", "dtype", "library"), list(kernels()))
def test_samples_of_an_operator_match_the_peers(
    op_type: str, dtype: str, library: str | None, peer: Peer
) -> None:
    if op_type in NO_PEER:
        pytest.skip(NO_PEER[op_type])
    reasons: list[str] = []
    samples = draw(op_type, dtype)
    for sample in samples:
        case = make_case(sample, dtype)
        try:
            check(case, dtype, Target("cpu", library), peer)
        except pytest.skip.Exception as skipped:
            reasons.append(str(skipped))
    if len(reasons) == len(samples):
        pytest.skip(reasons[0] if reasons else "no sample fits")


def make_case(sample: Sample, dtype: str) -> Case:
    proto = ow.current_context().ops.get(sample.op_type).proto
    duplicable = [slot.name for slot in proto.outputs if slot.duplicable]
    return as_case(
        sample.op_type,
        sample.inputs,
        sample.attrs,
        dtypes=(dtype,),
        label=sample.label,
        outputs={slot: sample.outputs[slot] for slot in duplicable},
    )
