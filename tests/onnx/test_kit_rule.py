"""The kit rule ``onnx``: an operator gives the same results after saving and loading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.plugin import Package
from opwright_kit.testing import check_package
from opwright_onnx import checking

ACME = Package("acme", "opwright-acme", "1.0")


@pytest.mark.parametrize("op_type", ["softmax", "concat", "top_k", "cholesky"])
def test_standard_operators_pass_with_and_without_a_row(op_type: str) -> None:
    (result,) = check_package("opwright-std", subject=op_type, rules=["onnx"]).results
    assert (result.state, result.findings) == ("passed", ())


def test_operators_that_return_only_state_are_skipped() -> None:
    (result,) = check_package("opwright-std", subject="adam", rules=["onnx"]).results
    assert (result.state, result.reason) == (
        "skipped",
        "all its outputs are state that it overwrites",
    )


def test_a_file_with_a_different_computation_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []

    def look(op_type: str, uses: Iterable[Any]) -> Iterator[Any]:
        drawn.extend(uses)
        return iter(())

    context = ow.Context.discover()
    context.annexes.add("rule", "look", look, ACME)
    check_package("opwright-std", subject="softmax", rules=["look"], context=context)

    class Other:
        feeds = ()

        def __call__(self, fed: Any) -> list[Any]:
            return [np.zeros(1, np.float32)]

    monkeypatch.setattr(checking, "load", lambda model: Other())
    ((_, fault), *_) = checking.check_operator("softmax", drawn)
    assert (
        fault
        == "a model must compute the same after it is written and loaded, got different numbers"
    )
