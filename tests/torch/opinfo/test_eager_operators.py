"""``opwright_torch.ops`` agrees with PyTorch on PyTorch's own samples."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from eager import run_eagerly
from opinfo_entries import entries, full_name
from opinfo_harness import RefusedError, Sample, check_gradients, compare, copy_all, draw

from every_case import EVERY, is_one_in

MOST = 6 if EVERY else 2
IN_CI = 20


def operators() -> list[Any]:
    """Return the entries with gradients."""
    return [
        pytest.param(entry, id=full_name(entry))
        for entry in entries()
        if (EVERY or is_one_in(IN_CI, full_name(entry)))
        and entry.supports_autograd
        and torch.float64 in entry.supported_dtypes("cpu")
    ]


@pytest.mark.parametrize("entry", operators())
def test_operator_values_and_gradients_match_pytorch(entry: Any) -> None:
    torch.manual_seed(11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ran = [try_sample(sample) for sample in draw(entry, torch.float64, MOST, True)]
    if not any(ran):
        pytest.skip("PyTorch computes a part of it, or it draws numbers")


def try_sample(sample: Sample) -> bool:
    """Return whether only our operators compute a sample; raise WrongError if they differ."""
    copies = copy_all(sample.tensors)
    expected = sample.function(*copies)
    try:
        found = run_eagerly(sample)
    except RefusedError:
        return False
    if found is None:
        return False
    results, _ = found
    compare(sample, results, expected, random=False)
    check_gradients(sample, copies, expected, results)
    return True
