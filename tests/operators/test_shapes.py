"""What is inferred for unknown dimensions agrees with what is inferred for known ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest
from case import Array, Case
from one_operator import definition_of
from table import by_operator, load_cases, over_cases

from opwright.errors import ShapeError
from opwright.op import Meta

Metas = tuple[tuple[Meta, ...], ...]


def known_metas(case: Case, arrays: Mapping[str, Sequence[Array]]) -> Metas:
    return tuple(
        tuple(Meta(array.shape, array.dtype.name) for array in arrays.get(slot.name, ()))
        for slot in definition_of(case).proto.inputs
    )


def with_unknown_dims(metas: Metas) -> Iterator[Metas]:
    """Give the metas with all dims unknown, with one axis of all, and with one dim of one."""
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
def test_unknown_dims_give_the_known_ones_or_unknown_ones(op_type: str) -> None:
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
def test_shapes_that_must_be_known_are_asked_for(case: Case) -> None:
    metas = known_metas(case, case.make_inputs(case.dtypes[-1]))
    with pytest.raises(ShapeError, match=f"{case.op}: .* unknown"):
        infer(case, next(with_unknown_dims(metas)))
