"""Inference with unknown dimensions agrees with inference with known dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from case import Array, Case
from cases.signal import FORMULAS
from one_operator import definition_of
from symbols import Symbol, evaluate
from table import by_operator, load_cases, over_cases

from opwright.errors import ShapeError
from opwright.op import AttrType, Meta

Metas = tuple[tuple[Meta, ...], ...]


def known_metas(case: Case, arrays: Mapping[str, Sequence[Array]]) -> Metas:
    return tuple(
        tuple(Meta(array.shape, array.dtype.name) for array in arrays.get(slot.name, ()))
        for slot in definition_of(case).proto.inputs
    )


def with_unknown_dims(metas: Metas) -> Iterator[Metas]:
    """Yield metas with all dims unknown, one axis of every meta unknown, or one dim unknown."""
    yield tuple(tuple(Meta((-1,) * len(m.shape), m.dtype) for m in slot) for slot in metas)
    longest = max((len(m.shape) for slot in metas for m in slot), default=0)
    for axis in range(longest):
        yield tuple(tuple(without(m, axis) for m in slot) for slot in metas)
    for i, slot in enumerate(metas):
        for j, meta in enumerate(slot):
            for axis in range(len(meta.shape)):
                changed = (*slot[:j], without(meta, axis), *slot[j + 1 :])
                yield (*metas[:i], changed, *metas[i + 1 :])


def without(meta: Meta, axis: int) -> Meta:
    return Meta(tuple(-1 if i == axis else dim for i, dim in enumerate(meta.shape)), meta.dtype)


def infer(case: Case, metas: Metas) -> Metas:
    definition = definition_of(case)
    absent = {slot.name for slot in definition.proto.inputs if slot.name not in case.inputs}
    counts = tuple(
        0 if slot.aliases in absent else case.outputs.get(slot.name, 1)
        for slot in definition.proto.outputs
    )
    return definition.infer(metas, definition.proto.fill_attrs(dict(case.attrs)), counts)


CASES = by_operator(case for case in load_cases() if not case.known_shapes)


@pytest.mark.parametrize("op_type", CASES)
def test_inference_with_unknown_dims_agrees_with_known_dims(op_type: str) -> None:
    for case in CASES[op_type]:
        check_unknown_dims(case)


def check_unknown_dims(case: Case) -> None:
    metas = known_metas(case, case.make_inputs(case.dtypes[-1]))
    known = infer(case, metas)
    for unknown in with_unknown_dims(metas):
        for slot, guessed in zip(known, infer(case, unknown), strict=True):
            for meta, guess in zip(slot, guessed, strict=True):
                assert meta.dtype == guess.dtype, case
                assert len(meta.shape) == len(guess.shape), f"{case}: {unknown}: {guess} for {meta}"
                pairs = zip(meta.shape, guess.shape, strict=True)
                assert all(b in (a, -1) for a, b in pairs), f"{case}: {unknown}: {guess} for {meta}"


@over_cases([case for case in load_cases() if case.known_shapes])
def test_an_operator_that_needs_known_shapes_refuses_unknown_sizes(case: Case) -> None:
    metas = known_metas(case, case.make_inputs(case.dtypes[-1]))
    with pytest.raises(ShapeError, match=f"{case.op}: .* unknown"):
        infer(case, next(with_unknown_dims(metas)))


def with_symbols(metas: Metas, guards: list[Any]) -> Metas:
    """Return the metas with one symbol for each size."""
    return tuple(
        tuple(Meta(tuple(Symbol.of(dim, guards) for dim in m.shape), m.dtype) for m in slot)
        for slot in metas
    )


def with_sizes(metas: Metas, sizes: Mapping[int, int]) -> Metas:
    return tuple(
        tuple(Meta(tuple(evaluate(dim, sizes) for dim in m.shape), m.dtype) for m in slot)
        for slot in metas
    )


EVERY = by_operator(load_cases())

BOUND = {
    *(
        "arange",
        "constant",
        "eye",
        "fill",
        "linspace",
        "logspace",
        *(f"{name}_window" for name in FORMULAS),
        "normal",
        "permutation",
        "randint",
    ),
    *("truncated_normal", "uniform", "auc", "box_coder", "cross", "fft", "ifft", "iou", "irfft"),
    *(
        "fftn",
        "ifftn",
        "fft2",
        "ifft2",
        "irfftn",
        "hfft",
        "istft",
        "grid_sample",
        "deform_conv2d",
        "affine_grid",
    ),
    *("batched_nms", "multiclass_nms", "nms", "precision_recall", "roi_align"),
    *("roi_align_places", "roi_pool"),
}
"""Operators without inputs, or with an axis of fixed size in their inputs."""


@pytest.mark.parametrize("op_type", EVERY)
def test_symbolic_inference_matches_numeric_inference(op_type: str) -> None:
    n_others = 0
    for case in EVERY[op_type]:
        metas = known_metas(case, case.make_inputs(case.dtypes[-1]))
        guards: list[Any] = []
        symbolic = infer(case, with_symbols(metas, guards))
        now = {dim: dim for slot in metas for m in slot for dim in m.shape}
        assert with_sizes(symbolic, now) == infer(case, metas), case
        larger = [dim for dim in now if dim > 1]  # size 1 is usually required
        for sizes in (now | {d: 2 * d for d in larger}, now | {d: d + 3 for d in larger}):
            if larger and all(guard(sizes) for guard in guards):
                n_others += 1
                others = with_sizes(with_symbols(metas, []), sizes)
                assert with_sizes(symbolic, sizes) == infer(case, others), case
    assert (n_others == 0) == (op_type in BOUND)


def operands_of(case: Case) -> list[str]:
    """Return the shape operands of a case, as integers."""
    return [name for name in definition_of(case).proto.operands if case.attrs.get(name)]


class Now(dict[int, int]):
    """Each symbol represents the size in its name."""

    def __missing__(self, size: int) -> int:
        return size


OPERANDS = by_operator(case for case in load_cases() if operands_of(case))


def infer_with(case: Case, attrs: Mapping[str, Any]) -> Metas:
    definition = definition_of(case)
    metas = known_metas(case, case.make_inputs(case.dtypes[-1]))
    counts = tuple(case.outputs.get(slot.name, 1) for slot in definition.proto.outputs)
    return definition.infer(
        metas, {**definition.proto.fill_attrs(dict(case.attrs)), **attrs}, counts
    )


def replaced(value: Any, replace: Any) -> Iterator[Any]:
    """Yield the value of an attribute with one number replaced, and with all numbers replaced."""
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    for changed in (*([i] for i in range(len(items))), range(len(items))):
        new = tuple(replace(x) if i in changed else x for i, x in enumerate(items))
        yield new if isinstance(value, (list, tuple)) else new[0]


@pytest.mark.parametrize("op_type", OPERANDS)
def test_inference_with_unknown_operands_agrees_with_known_operands(op_type: str) -> None:
    for case in OPERANDS[op_type]:
        known = infer_with(case, {})
        for name in operands_of(case):
            for value in replaced(case.attrs[name], lambda _: None):
                guessed = infer_with(case, {name: value})
                for slots in zip(known, guessed, strict=True):
                    for meta, guess in zip(*slots, strict=True):
                        assert len(meta.shape) == len(guess.shape), (case, value)
                        pairs = zip(meta.shape, guess.shape, strict=True)
                        assert all(b in (a, -1) for a, b in pairs), (case, value)


@pytest.mark.parametrize("op_type", OPERANDS)
def test_attributes_that_are_shape_operands_can_be_symbols(op_type: str) -> None:
    for case in OPERANDS[op_type]:
        for name in operands_of(case):
            if definition_of(case).proto.attr_protos[name].type is AttrType.FLOAT:
                continue  # there are no symbols of floats
            guards: list[Any] = []
            for value in replaced(case.attrs[name], partial(Symbol.of, guards=guards)):
                every = Now()
                assert with_sizes(infer_with(case, {name: value}), every) == infer_with(case, {})
