"""The kit rule ``torch``: operators that pass, and the findings that it reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drawn_uses import uses_of
from opwright_kit.testing import check_package
from opwright_torch.checking import check_operator

SAMPLE = ("softmax", "concat", "gather", "adam", "nonzero")


@pytest.mark.parametrize("op_type", SAMPLE)
def test_standard_operators_pass(op_type: str) -> None:
    (result,) = check_package("opwright-std", subject=op_type, rules=["torch"]).results
    assert (result.state, result.findings) == ("passed", ())


@pytest.mark.parametrize("what", ["result", "gradient"])
def test_wrong_results_are_detected(what: str) -> None:
    use = uses_of("softmax")[0]
    wrong: Any = {what + "s": [array + 1 for array in getattr(use, what + "s")]}
    ((_, fault),) = check_operator("softmax", [replace(use, **wrong)])
    assert f"the operator must compute the same eagerly, got {what}" in fault
    assert "that differs by 1" in fault


def test_an_exception_raised_by_a_call_is_reported() -> None:
    use = replace(uses_of("softmax")[0], results=[])
    ((_, fault),) = check_operator("softmax", [use])
    assert "ValueError: zip()" in fault
