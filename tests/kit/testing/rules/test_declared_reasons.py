"""Behavior is not a finding if a package declares a reason for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.op import OpMaker, grad_op, no_gradient, same_shape_as
from opwright.plugin import Package
from opwright_kit.testing import CheckContext, Draw, Finding, Skipped, load_rules
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.samples.samplers import SamplerError

ACME = Package("acme", "opwright-acme", "1.0")
Declare = Callable[[Draw], None]


def _cut(x: Any, out: Any, *, workers: int) -> None:
    np.copyto(out, np.where(x > 0, np.tanh(x), 0))


def _cut_grad(out: Any, out_grad: Any, x_grad: Any, *, workers: int) -> None:
    np.copyto(x_grad, np.where(out == 0, 0, out_grad * (1 - out * out)))


CUT = (
    OpMaker("acme.cut")
    .add_comment("Hyperbolic tangent above 0, else 0.")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("workers", int, "how many share the work")
    .default(1)
    .between(1, 4)
    .build(infer_shape=same_shape_as("x"), gradient=grad_op("acme.cut_grad", needs=["out"]))
)


def check(rule_name: str, op_type: str, declare: Declare) -> list[Finding]:
    """Return the findings of a rule for a kernel whose samples declare reasons with `declare`."""

    def draw_cut(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
        declare(draw)
        return {"x": draw.floats((draw.length,))}, draw.attrs

    context = ow.Context.discover()
    context.ops.add("acme.cut", CUT, ACME)
    for name, kernel in (("acme.cut", _cut), ("acme.cut_grad", _cut_grad)):
        context.kernels.add(
            name,
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=kernel,
            library="acme",
            package=ACME,
        )
    entries = tuple(context.kernels.entries(op_type))
    subject = KernelSubject(op_type, "cpu", "acme", entries, context)
    rule = next(rule for rule in load_rules() if rule.name == rule_name)
    return list(rule.check(subject, CheckContext(context, samplers={"acme.cut": draw_cut})))


def nothing(draw: Draw) -> None:
    """Declare nothing."""


def test_an_attribute_without_effect_is_reported_unless_declared() -> None:
    def declare(draw: Draw) -> None:
        draw.without_effect["workers"] = "it chooses a way, not a result"

    (finding,) = check("idle-attributes", "acme.cut", nothing)
    assert "got the same for all values of workers" in finding.message
    assert check("idle-attributes", "acme.cut", declare) == []


def test_an_operator_that_drops_nan_is_reported_unless_declared() -> None:
    def declare(draw: Draw) -> None:
        draw.drops_nan = "NaN counts as missing"

    assert "= nan must reach out" in check("special-values", "acme.cut", nothing)[0].message
    with pytest.raises(Skipped, match="^declared: NaN counts as missing$"):
        check("special-values", "acme.cut", declare)


def test_a_gradient_that_is_inexact_in_its_tails_is_reported_unless_declared() -> None:
    def declare(draw: Draw) -> None:
        draw.loses_tails = "1 - out has few digits"

    found = check("gradient-extremes", "acme.cut_grad", nothing)
    assert any("must be right far from 0" in finding.message for finding in found)
    kept = check("gradient-extremes", "acme.cut_grad", declare)
    assert not any("far from 0" in finding.message for finding in kept)


def test_a_zero_gradient_at_nan_is_reported_unless_declared() -> None:
    def check_clip(declare: Declare) -> list[Finding]:
        def draw_clip(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
            declare(draw)
            return {"x": draw.floats((draw.length,))}, {"min": -9.0, "max": 9.0}

        context = ow.Context.discover()
        entries = [e for e in context.kernels.entries("clip_grad") if e.library == "numpy"]
        subject = KernelSubject("clip_grad", "cpu", "numpy", tuple(entries), context)
        rule = next(rule for rule in load_rules() if rule.name == "gradient-extremes")
        return list(rule.check(subject, CheckContext(context, samplers={"clip": draw_clip})))

    def declare(draw: Draw) -> None:
        draw.flat_at_nan = "NaN lies in no range"

    assert "= nan, which reaches an output, must not be 0" in check_clip(nothing)[0].message
    assert check_clip(declare) == []


def _double(x: Any, out: Any) -> None:
    np.multiply(x, 2, out=out)


def _double_rounded(x: Any, out: Any) -> None:
    np.divide(np.round(np.multiply(x, 200)), 100, out=out)


def check_rounded(declare: Declare) -> list[Finding]:
    """Return the findings of the rule `reference` for a kernel that rounds to hundredths."""

    def draw_double(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
        declare(draw)
        return {"x": draw.floats((draw.length,))}, {}

    double = (
        OpMaker("acme.double")
        .add_comment("Twice, out = 2 * x.")
        .add_input("x", "any shape, float")
        .dtypes("float32", "float64")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=same_shape_as("x"), gradient=no_gradient("of no interest"))
    )
    context = ow.Context.discover()
    context.ops.add("acme.double", double, ACME)
    for library, kernel, priority in (("numpy", _double, 0), ("acme", _double_rounded, 50)):
        context.kernels.add(
            "acme.double",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=kernel,
            library=library,
            priority=priority,
            package=ACME,
        )
    entries = [e for e in context.kernels.entries("acme.double") if e.library == "acme"]
    subject = KernelSubject("acme.double", "cpu", "acme", tuple(entries), context)
    rule = next(rule for rule in load_rules() if rule.name == "reference")
    checked = CheckContext(context, samplers={"acme.double": draw_double})
    return list(rule.check(subject, checked))


def test_results_can_differ_by_a_tolerance_declared_with_a_reason() -> None:
    def declare(draw: Draw) -> None:
        draw.tolerance = (0.01, "results are kept in hundredths")

    def declare_too_little(draw: Draw) -> None:
        draw.tolerance = (1e-5, "nobody looks")

    assert check_rounded(nothing)
    assert check_rounded(declare) == []
    assert "further apart than declared, 1e-05" in check_rounded(declare_too_little)[0].message


def test_a_tolerance_without_a_reason_is_refused() -> None:
    def declare(draw: Draw) -> None:
        draw.tolerance = 0.01  # type: ignore[assignment]

    with pytest.raises(SamplerError, match=r"a number in \[0, 1\) and a reason, got 0.01; write"):
        check_rounded(declare)


def test_nan_in_a_block_of_hundreds_must_reach_the_output() -> None:
    def drop_in_blocks(x: Any, out: Any) -> None:
        np.abs(x, out=out)
        whole = x.size - x.size % 576
        np.nan_to_num(out.reshape(-1)[:whole], copy=False)

    context = ow.Context.discover()
    options: dict[str, Any] = {
        "device": "cpu",
        "dtypes": ["float32"],
        "library": "a",
        "package": ACME,
    }
    context.kernels.add("abs", kernel=drop_in_blocks, **options)
    entries = [e for e in context.kernels.entries("abs") if e.library == "a"]
    subject = KernelSubject("abs", "cpu", "a", tuple(entries), context)
    rule = next(rule for rule in load_rules() if rule.name == "special-values")
    for seed in range(3):
        findings = list(rule.check(subject, CheckContext(context, seed)))
        assert any("= nan must reach out" in finding.message for finding in findings)


def test_a_kernel_that_always_fails_gives_one_finding_with_specific_advice() -> None:
    def misspelled(x: Any, out: Any) -> None:
        np.copyto(out, xx)  # type: ignore[name-defined]  # noqa: F821

    context = ow.Context.discover()
    options: dict[str, Any] = {"device": "cpu", "library": "a", "package": ACME}
    context.kernels.add("abs", dtypes=["float32"], kernel=misspelled, **options)
    entries = [e for e in context.kernels.entries("abs") if e.library == "a"]
    subject = KernelSubject("abs", "cpu", "a", tuple(entries), context)
    rule = next(rule for rule in load_rules() if rule.name == "shape-rule")
    (finding,) = rule.check(subject, CheckContext(context))
    assert "got NameError: name 'xx' is not defined; fix the kernel" in finding.message
