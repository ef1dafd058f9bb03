"""The registry: operators have cases, kernels, gradients (or a reason for none) and comments."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from table import graded, load_cases, standard_types

import opwright as ow
from opwright.op import FLOAT_DTYPES, AttrType, GradOp, OpDefinition
from opwright_std.samples import SAMPLES

TYPES = standard_types()
KERNELS = ow.current_context().kernels


def definition(op_type: str) -> OpDefinition:
    return ow.current_context().ops.get(op_type)


def has_blocks(op_type: str) -> bool:
    return any(attr.type is AttrType.BLOCK for attr in definition(op_type).proto.attrs)


def numpy_dtypes(op_type: str) -> set[str]:
    return {entry.dtype for entry in KERNELS.entries(op_type) if entry.library == "numpy"}


def test_dozens_of_operators_are_registered() -> None:
    assert len(TYPES) >= 60


@pytest.mark.parametrize("op_type", [name for name in TYPES if not has_blocks(name)])
def test_every_operator_has_cases(op_type: str) -> None:
    cases = [case for case in load_cases() if case.op == op_type]
    assert cases
    sizes = {sum(a.size for a in c.make_inputs(c.dtypes[0]).get("x", [])) for c in cases}
    if any("x" in case.inputs for case in cases):
        assert 0 in sizes, "no case with an empty x"
        assert len(sizes) > 2, "cases of one size only"


@pytest.mark.parametrize("op_type", standard_types(plan_only=True))
def test_pass_only_operators_have_samples_kernels_and_a_plugin_prefix(op_type: str) -> None:
    """The tests of the passes compare such an operator with the operators that it replaces."""
    assert op_type.startswith("std.")
    assert op_type in SAMPLES
    assert KERNELS.entries(op_type)


@pytest.mark.parametrize("op_type", TYPES)
def test_every_operator_has_a_reference_kernel_or_a_body(op_type: str) -> None:
    known = definition(op_type)
    assert numpy_dtypes(op_type) or known.body is not None or known.control is not None


@pytest.mark.parametrize("op_type", TYPES)
def test_every_operator_has_a_gradient_or_a_reason_for_none(op_type: str) -> None:
    known = definition(op_type)
    # Branches and loops do not need a rule, because the core differentiates their blocks.
    # Composites do not need a rule, because their bodies replace them.
    has_rule = known.gradient is not None or known.body is not None
    assert has_rule or known.control is not None


@pytest.mark.parametrize("op_type", TYPES)
def test_every_slot_and_attribute_is_described(op_type: str) -> None:
    proto = definition(op_type).proto
    words = [proto.comment, *(part.comment for part in (*proto.inputs, *proto.outputs))]
    assert all([*words, *(attr.comment for attr in proto.attrs)])


NUMPY_ALONE = {
    **dict.fromkeys(
        ("cholesky", "det", "det_grad", "inverse", "slogdet", "solve"), "LAPACK computes it"
    ),
    **dict.fromkeys(("assert_true", "print"), "it looks at values, and computes nothing"),
    "masked_select": "NumPy's copy by a mask is compiled",
    "roi_align_places": "only gradients of greatest samples need it",
}
"""Operators and gradient operators that only NumPy kernels compute on the CPU, and why."""


def test_operators_computed_only_by_numpy_have_a_reason() -> None:
    libraries = {
        name: {entry.library for entry in KERNELS.entries(name) if entry.device == "cpu"}
        for op_type in TYPES
        for name in (op_type, f"{op_type}_grad")
    }
    alone = [name for name, found in libraries.items() if found == {"numpy"}]
    assert sorted(alone) == sorted(NUMPY_ALONE)


def is_composed(op_type: str) -> bool:
    """Return whether the gradient operator is only a composition."""
    rule = definition(op_type).gradient
    return isinstance(rule, GradOp) and bool(rule.body) and not numpy_dtypes(rule.type)


@pytest.mark.parametrize(
    "op_type",
    [
        name
        for name in TYPES
        if isinstance(definition(name).gradient, GradOp) and not is_composed(name)
    ],
)
def test_every_gradient_operator_has_kernels_for_the_floats_of_its_operator(op_type: str) -> None:
    floats = {dtype for dtype in numpy_dtypes(op_type) if dtype in FLOAT_DTYPES}
    assert floats or "*" in numpy_dtypes(op_type)
    assert floats <= numpy_dtypes(f"{op_type}_grad") or "*" in numpy_dtypes(f"{op_type}_grad")


@cache
def graded_types() -> set[str]:
    return {case.op for case, dtype in graded() if dtype == "float64"}


@pytest.mark.parametrize("op_type", [name for name in TYPES if callable(definition(name).gradient)])
def test_every_gradient_is_compared_in_some_case(op_type: str) -> None:
    if has_blocks(op_type):
        pytest.skip("operators with blocks are tested in programs of their own")
    assert op_type in graded_types()


@pytest.mark.parametrize("op_type", KERNELS.op_types())
def test_every_kernel_loads_and_supports_only_dtypes_of_its_operator(op_type: str) -> None:
    proto = definition(op_type).proto
    slot = proto.input_slots.get(proto.dispatch_slot or "")
    for entry in KERNELS.entries(op_type):
        if entry.device == "cpu":
            assert entry.load() is not None
        if slot is not None and slot.dtypes:
            assert entry.dtype in {*slot.dtypes, "*"}


def test_every_case_has_a_unique_name() -> None:
    names = Counter(map(str, load_cases()))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_case_tests_an_existing_operator() -> None:
    assert {case.op for case in load_cases()} <= set(ow.list_ops(all=True))
