"""Draws inputs with one array of a wrong rank, length or dtype; most are invalid."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwright.errors import DtypeError
from opwright.op import DTYPES, Meta, OpDefinition, dtype_to_numpy
from opwright_kit.testing.samples.sample import Array, Sample, SlotMetas, meta_of


def find_wrong_metas(definition: OpDefinition, metas: SlotMetas) -> Iterator[tuple[str, SlotMetas]]:
    """Yield each variant with one wrong meta, after its description: ``"x float32[3, 2]"``."""
    for i, slot in enumerate(definition.proto.inputs):
        for k, meta in enumerate(metas[i]):
            for other in _others(meta):
                slot_metas = (*metas[i][:k], other, *metas[i][k + 1 :])
                yield f"{slot.name} {other}", (*metas[:i], slot_metas, *metas[i + 1 :])


def find_wrong_samples(sample: Sample) -> Iterator[Sample]:
    """Yield samples with one wrong array: the same numbers, truncated or repeated to fill it."""
    for slot, arrays in sample.inputs.items():
        for k, array in enumerate(arrays):
            for other in _others(meta_of(array)):
                try:
                    changed = _as(array, other)
                except DtypeError:  # bfloat16 without ml_dtypes, which nothing can pass then
                    continue
                slot_arrays = (*arrays[:k], changed, *arrays[k + 1 :])
                yield sample.with_inputs({**sample.inputs, slot: slot_arrays}, f"{slot} {other}")


def _others(meta: Meta) -> Iterator[Meta]:
    return (other for other in _changed(meta) if other != meta)


def _changed(meta: Meta) -> Iterator[Meta]:
    shape = meta.shape
    yield Meta((*shape, 2), meta.dtype)
    yield Meta((5, 3, *shape), meta.dtype)
    yield Meta((), meta.dtype)
    if shape:
        yield Meta(shape[1:], meta.dtype)
        yield Meta((*shape[:-1], shape[-1] + 1), meta.dtype)
        yield Meta((shape[0] + 1, *shape[1:]), meta.dtype)
        yield Meta((0, *shape[1:]), meta.dtype)
        yield Meta((*shape[:-1], 0), meta.dtype)
    for dtype in DTYPES:
        if dtype != meta.dtype:
            yield Meta(shape, dtype)


def _as(array: Array, meta: Meta) -> Array:
    """Return an array of this meta: `numpy.resize` repeats the existing elements."""
    with np.errstate(all="ignore"):
        return np.asarray(np.resize(array, meta.shape)).astype(dtype_to_numpy(meta.dtype))
