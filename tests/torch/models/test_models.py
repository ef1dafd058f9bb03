"""Models of torchvision, timm and transformers in plans are as accurate as in PyTorch."""

from __future__ import annotations

from math import ceil
from typing import Final

import pytest
import torch
from model_run import find_excess, try_model
from model_zoo import TORCHVISION, entries
from training import MOST

from every_case import EVERY, is_one_in

IN_CI: Final = ("torchvision.resnet18", "transformers.mixtral", "transformers.gpt2")
SHARE: Final = 0.95
"""The minimum share of torchvision families that run in one plan without PyTorch calls."""

LOOSE: Final = {"timm.test_nfnet": 12.0}
"""Bounds, relative to PyTorch's errors, for models whose layers amplify the errors of earlier
layers; each single layer has at most twice the error of PyTorch."""


def sample(share: int) -> list[str]:
    """Return all torchvision and transformers models, and one in `share` of the timm models."""
    return [n for n in entries() if not n.startswith("timm") or is_one_in(share, n)]


@pytest.fixture(scope="module")
def plain() -> dict[str, bool]:
    """Map the name of each model that ran to whether it ran without PyTorch operators."""
    return {}


@pytest.mark.parametrize("name", entries() if EVERY else IN_CI)
def test_inference_is_as_close_to_float64_as_pytorch(name: str, plain: dict[str, bool]) -> None:
    plain[name] = check(name, None, is_training=False)


@pytest.mark.parametrize("name", entries() if EVERY else IN_CI)
def test_training_is_as_close_to_float64_as_pytorch(name: str, plain: dict[str, bool]) -> None:
    plain[name] = check(name, "sgd", is_training=True) and plain.get(name, True)


@pytest.mark.parametrize("name", sample(3)[::4] if EVERY else IN_CI[-1:])
def test_fine_tuning_is_as_close_to_float64_as_pytorch(name: str) -> None:
    check(name, "adamw", is_training=False)


@pytest.mark.skipif(not EVERY, reason="needs all models: OPWRIGHT_EVERY_CASE=1")
def test_torchvision_families_run_in_one_plan(plain: dict[str, bool]) -> None:
    ran = {name: plain[f"torchvision.{name}"] for name in TORCHVISION}
    others = sorted(name for name, is_plain in ran.items() if not is_plain)
    assert len(ran) - len(others) >= ceil(SHARE * len(ran)), others


def check(name: str, optimizer: str | None, is_training: bool) -> bool:
    """Check the errors of a model; return whether it ran without PyTorch operators."""
    entry = entries()[name]
    outcome = try_model(entry, optimizer, is_training)
    most = LOOSE.get(name, MOST)
    excess = find_excess(entry, optimizer, is_training, outcome.errors, most)
    torch._dynamo.reset()
    assert not excess
    return not outcome.declined
