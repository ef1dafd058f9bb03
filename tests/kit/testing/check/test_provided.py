"""Packages can provide rules as annexes under the topic ``rule``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import CommandError, MissingRequirementError
from opwright.plugin import Package
from opwright_kit.testing import Scorecard, check_package

ACME = Package("acme", "opwright-acme", "1.0")


def check(function: Any, subject: str = "softmax", rules: Any = ("frame",)) -> Scorecard:
    """Return the scorecard of an operator under a rule that a package provides."""
    context = ow.Context.discover()
    context.annexes.add("rule", "frame", function, ACME)
    return check_package("opwright-std", subject=subject, rules=rules, context=context)


def test_a_rule_receives_calls_with_opwright_results_and_gradients() -> None:
    seen = []

    def look(op_type: str, uses: Any) -> Iterator[Any]:
        assert op_type == "softmax"
        seen.extend(uses)
        return iter(())

    (result,) = check(look).results
    assert result.state == "passed"
    for use in seen:
        (x,), (out,), (weight,) = use.arguments, use.results, use.weights
        axis = use.sample.attrs["axis"]
        np.testing.assert_array_equal(use.call(ow.ops, [x])[0], out)
        gradient = out * (weight - (weight * out).sum(axis, keepdims=True))
        np.testing.assert_allclose(use.gradients[0], gradient, rtol=1e-4, atol=1e-6)
    assert seen


def test_lists_and_integers_are_passed_in_their_slots() -> None:
    places = set()

    def look(op_type: str, uses: Any) -> Iterator[Any]:
        for use in uses:
            places.add((len(use.arguments) > len(use.places), use.places != ()))
        return iter(())

    assert check(look, "gather").results[0].state == "passed"
    assert places == {(True, True)}
    assert check(look, "concat").results[0].state == "passed"


def test_a_value_yielded_by_a_rule_is_reported_for_the_sample() -> None:
    def complain(op_type: str, uses: Any) -> Iterator[Any]:
        yield next(uses), "it must fit the frame, got a square"

    (result,) = check(complain).results
    (finding,) = result.findings
    assert finding.message == "softmax: it must fit the frame, got a square"
    assert (finding.rule, finding.dtype) == ("frame", "float32")
    assert "axis" in finding.sample


def test_a_rule_is_skipped_if_it_returns_a_reason_or_a_package_is_missing() -> None:
    def decline(op_type: str, uses: Any) -> Iterator[Any]:
        yield from ()
        return "frames have no softmax"

    def lack(op_type: str, uses: Any) -> Iterator[Any]:
        raise MissingRequirementError("frame: it must be installed, got no module 'frame'")

    for function, reason in ((decline, "frames have no softmax"), (lack, "no module 'frame'")):
        (result,) = check(function).results
        assert result.state == "skipped"
        assert reason in result.reason


def test_operators_that_users_cannot_call_are_not_checked() -> None:
    def look(op_type: str, uses: Any) -> Iterator[Any]:
        raise AssertionError(op_type)

    assert not check(look, "softmax_grad").results
    assert not check(look, "scan").results


def test_the_error_for_an_unknown_rule_suggests_the_nearest_rule_of_any_package() -> None:
    with pytest.raises(CommandError, match="unknown rule, got 'fram'; did you mean 'frame'"):
        check(None, rules=("fram",))
