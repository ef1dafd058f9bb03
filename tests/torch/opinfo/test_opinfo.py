"""PyTorch's own samples of its operators, in plans: values, dtypes and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from opinfo_entries import entries, full_name
from opinfo_run import outcomes_of

from every_case import EVERY, is_one_in

VALUES = ("float32", "int64", "bool", "bfloat16", "float16")
MOST = 8 if EVERY else 3
"""The number of samples per operator; ``opinfo_run.py --most 0`` runs all samples."""

IN_CI = 10
"""CI tests one in `IN_CI` operators; `make test-torch` runs all."""


def operators() -> list[Any]:
    return [
        pytest.param(entry, id=full_name(entry))
        for entry in entries()
        if EVERY or is_one_in(IN_CI, full_name(entry))
    ]


@pytest.mark.parametrize("entry", operators())
@pytest.mark.parametrize("dtype", VALUES)
def test_values_and_dtypes_match_pytorch(entry: Any, dtype: str) -> None:
    check(entry, dtype, gradient=False)


@pytest.mark.parametrize("entry", operators())
def test_gradients_match_pytorch(entry: Any) -> None:
    check(entry, "float64", gradient=True)


def check(entry: Any, dtype: str, *, gradient: bool) -> None:
    most = MOST if dtype in ("float32", "float64") else MOST // 2
    outcomes = outcomes_of(entry, getattr(torch, dtype), most, gradient)
    if all(outcome.kind in ("refused", "left out") for outcome in outcomes):
        pytest.skip(outcomes[0].reasons[0] if outcomes else "PyTorch lacks it in this dtype")
    wrong = [outcome.reasons[0] for outcome in outcomes if outcome.kind == "wrong"]
    assert not wrong, "\n".join(wrong)
