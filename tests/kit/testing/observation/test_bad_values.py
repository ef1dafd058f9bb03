"""At run time, a kernel must refuse the values that its package declares as invalid."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

import opwright as ow
from opwright.op import NoGradient, OpMaker
from opwright.plugin import Package
from opwright_kit.testing import CheckContext, Draw, load_rules
from opwright_kit.testing.results.subjects import KernelSubject

ACME = Package("acme", "opwright-acme", "1.0")
PICK = (
    OpMaker("acme.pick")
    .add_comment("Pick, out = x[index].")
    .add_input("x", "float [n]")
    .add_input("index", "[m], below n")
    .dtypes("int64")
    .add_output("out", "[m], dtype of x")
    .same_dtype_as("x")
    .build(
        infer_shape=lambda ctx: ctx.set_output("out", ctx.input("index").shape),
        gradient=NoGradient("it is only run"),
    )
)


def draw_pick(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
    draw.refused["index"] = (-1, 5)
    return {"x": draw.floats((5,)), "index": draw.integers((draw.length,), 0, 5)}, {}


def messages(kernel: Any) -> list[str]:
    """Return the findings of the rule for the only kernel of the operator."""
    context = ow.Context.discover()
    context.ops.add("acme.pick", PICK, ACME)
    context.kernels.add(
        "acme.pick", device="cpu", dtypes=["float32"], kernel=kernel, library="acme", package=ACME
    )
    entries = tuple(context.kernels.entries("acme.pick"))
    subject = KernelSubject("acme.pick", "cpu", "acme", entries, context)
    rule = next(rule for rule in load_rules() if rule.name == "out-of-range")
    assert rule.asks(subject)
    checked = CheckContext(context, samplers={"acme.pick": draw_pick})
    return [finding.message for finding in rule.check(subject, checked)]


def test_a_declared_value_must_be_refused() -> None:
    def clip(x: Any, index: Any, out: Any) -> None:
        np.copyto(out, x[np.clip(index, 0, 4)])

    said = "acme.pick[cpu, acme]: index={} must be refused, got a result; check the range first"
    assert messages(clip) == [said.format(-1), said.format(5)]


def test_an_error_about_a_value_states_the_condition_and_the_value() -> None:
    def refuse(x: Any, index: Any, out: Any) -> None:
        if (index < 0).any():
            raise ValueError(f"index must be in [0, 5), got {index.min()}")
        if (index > 4).any():
            raise ValueError("index is too large")
        np.copyto(out, x[index])

    (said,) = messages(refuse)
    assert (
        "the error for index=5 must say what it got, got 'ValueError: index is too large'" in said
    )


def test_a_write_out_of_bounds_is_reported_if_a_value_should_have_been_refused() -> None:
    def scatter(x: Any, index: Any, out: Any) -> None:
        np.copyto(out, x[np.clip(index, 0, 4)])
        if index.size and index[0] < 0:
            ctypes.memset(out.ctypes.data - 4, 0, 4)

    assert "index=-1 must be refused, got a write to 4 bytes before out" in messages(scatter)[0]
