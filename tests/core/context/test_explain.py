"""Explanations list every candidate as chosen, accepted or rejected, with the reason."""

from __future__ import annotations

import json

import pytest

from opwright import Context, context_guard
from opwright.errors import (
    AttributeTypeError,
    DtypeError,
    KernelNotFoundError,
    OperatorNotFoundError,
)
from opwright.kernel import explain
from swish_operators import ACME, OTHER, SWISH, swish, wrong


@pytest.fixture
def context():
    made = Context()
    made.ops.add("acme.swish", SWISH, ACME)

    def add(library, dtypes, priority, *, device="cpu", kernel=swish, package=ACME):
        made.kernels.add(
            "acme.swish",
            device=device,
            dtypes=dtypes,
            kernel=kernel,
            library=library,
            priority=priority,
            package=package,
        )

    add("fast", ["float32"], 60, package=OTHER)
    add("double", ["float64"], 60, package=OTHER)
    add("broken", ["float32"], 70, kernel=wrong)
    add("gone", ["float32"], 65, kernel="not_there:k")
    add("cublas", ["float32"], 80, device="cuda")
    add("numpy", "*", 0)
    return made


def verdicts(explanation):
    return [(c.entry.library, c.rank, c.verdict) for c in explanation.candidates]


def test_every_kernel_is_listed_with_a_verdict(context):
    found = explain("acme.swish", "cpu", "float32", context=context)
    assert verdicts(found) == [
        ("fast", 1, "chosen"),
        ("numpy", 2, "accepted"),
        ("cublas", 0, "rejected"),
        ("broken", 0, "rejected"),
        ("gone", 0, "rejected"),
        ("double", 0, "rejected"),
    ]
    assert found.chosen.library == "fast"


def test_a_rejected_kernel_is_listed_with_the_reason(context):
    found = explain("acme.swish", dtype="float32", context=context)
    reasons = {c.entry.library: c.reason for c in found.candidates}
    assert reasons["cublas"] == "is for the device cuda"
    assert reasons["double"] == "is for float64"
    assert reasons["broken"].startswith("failed to load: acme.swish[cpu, float32, broken] of")
    assert "ModuleNotFoundError: No module named 'not_there'" in reasons["gone"]
    assert reasons["fast"] == ""
    assert reasons["numpy"] == "tried if the kernels above refuse"


def test_the_error_for_an_unknown_device_suggests_the_nearest_device(context):
    text = r"acme.swish\[cudda, \*\]: no kernel registered; did you mean the device 'cuda'\?\n"
    with pytest.raises(KernelNotFoundError, match=text):
        explain("acme.swish", "cudda", context=context)


def test_if_prepare_refuses_the_next_kernel_is_chosen(context):
    entries = {entry.library: entry for entry in context.kernels.entries("acme.swish")}
    refusals = [(entries["fast"], "odd size")]
    found = explain("acme.swish", dtype="float32", context=context, refusals=refusals)
    assert found.chosen.library == "numpy"
    [fast] = [c for c in found.candidates if c.entry.library == "fast"]
    assert (fast.verdict, fast.reason) == ("rejected", "refused: odd size")


def test_without_a_dtype_one_kernel_is_chosen_for_each_dtype(context):
    found = explain("acme.swish", context=context)
    assert [v for v in verdicts(found) if v[1]] == [
        ("double", 1, "chosen"),
        ("fast", 1, "chosen"),
        ("numpy", 1, "chosen"),
    ]


def test_a_pin_determines_the_choice_and_is_reported(context):
    with context.pin("acme.swish", "numpy"):
        found = explain("acme.swish", dtype="float32", context=context)
    assert found.chosen.library == "numpy"
    reasons = {c.entry.library: c.reason for c in found.candidates}
    assert reasons["fast"] == "the Context pins acme.swish to numpy"
    assert "the Context pins acme.swish to the library 'numpy'" in str(found)


def test_a_pin_for_all_operators_takes_precedence(context):
    with context.pin("*", "numpy"):
        found = explain("acme.swish", dtype="float32", context=context)
    assert [v for v in verdicts(found) if v[1]] == [
        ("numpy", 1, "chosen"),
        ("fast", 2, "accepted"),
    ]


def test_accepted_kernels_are_listed_in_the_order_of_the_candidates(context):
    for pins in ({}, {"*": "numpy"}, {"acme.swish": "fast"}):
        twin = context.with_pins(pins)
        chosen = explain("acme.swish", dtype="float64", context=twin).candidates
        loaded = [c.entry for c in chosen if c.is_accepted]
        tried = twin.candidates("acme.swish", "cpu", "float64")
        assert loaded == list(tried)


def test_the_table_is_readable(context):
    text = str(explain("acme.swish", dtype="float32", context=context))
    lines = text.splitlines()
    assert lines[0] == "acme.swish[cpu, float32]"
    assert lines[1].split() == [
        *("library", "device", "dtype", "priority", "package", "verdict", "reason")
    ]
    assert lines[2].split() == [
        *("1", "fast", "cpu", "float32", "60", "opwright-other", "2.0", "chosen")
    ]
    assert repr(explain("acme.swish", dtype="float32", context=context)) == text


def test_the_table_reports_that_no_kernel_fits(context):
    found = explain("acme.swish", "cuda", "float64", context=context)
    assert found.chosen is None
    assert str(found).startswith("acme.swish[cuda, float64]: no kernel fits\n")


def test_an_explanation_can_be_converted_to_json(context):
    found = explain("acme.swish", dtype="float32", context=context).to_json()
    data = json.loads(json.dumps(found))
    assert data["candidates"][0]["package"]["distribution"] == "opwright-other"
    assert data["candidates"][0]["rank"] == 1
    assert data["candidates"][-1]["rank"] is None


def test_the_current_context_is_the_default(context):
    with context_guard(context):
        assert explain("acme.swish").chosen.package == OTHER


def test_invalid_arguments_raise(context):
    with pytest.raises(OperatorNotFoundError, match="did you mean 'acme.swish'"):
        explain("acme.swsh", context=context)
    with pytest.raises(KernelNotFoundError, match=r"acme.swish\[abacus, float32\]: no kernel"):
        explain("acme.swish", "abacus", "float32", context=context)
    with pytest.raises(DtypeError, match="'flot32'; did you mean 'float32'"):
        explain("acme.swish", dtype="flot32", context=context)


@pytest.mark.parametrize("refusals", [3, [3], "ab", [("acme", "too small")]], ids=repr)
def test_refusals_must_be_pairs_of_a_kernel_and_a_reason(context, refusals):
    with pytest.raises(AttributeTypeError, match=r"^explain: refusals must be a list of \(Kernel"):
        explain("acme.swish", context=context, refusals=refusals)


def test_a_numpy_dtype_is_accepted(context):
    assert explain("acme.swish", dtype=float, context=context).dtype == "float64"
