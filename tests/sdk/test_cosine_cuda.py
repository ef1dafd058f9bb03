"""The CUDA kernels of the example match its CPU kernels, on a real or emulated GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opwright as ow
from every_case import EVERY
from opwright_kit.testing import check_package, load_rules

pytestmark = [pytest.mark.cuda_kernels, pytest.mark.slow]

RNG = np.random.default_rng(3)
DEVICES = ("cuda", "cpu")
SLOTS = ("a_grad", "b_grad")
ALL_RULES = [rule.name for rule in load_rules() if rule.name != "inconsistent-inputs"]
"""The excluded rule compiles kernels for a hundred shapes, which takes minutes in the emulator."""
QUICK_RULES = ["reference", "guard-bytes", "writes-every-element", "refusals", "special-values"]
"""The rules with the fewest runs: the emulator takes minutes for the other rules."""
RULES = ALL_RULES if EVERY else QUICK_RULES
SAMPLES = (None,) if EVERY else (2, 6, 9)
"""All samples, or some small ones: a block has 128 threads, and the largest sample thousands of
blocks, which the emulator runs one after the other."""


@pytest.fixture(autouse=True)
def context(cosine_site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ow.Context]:
    """Install the example in addition to this environment."""
    monkeypatch.syspath_prepend(str(cosine_site))
    with ow.context_guard(ow.Context.discover()) as discovered:
        yield discovered


def compute(device: str, a: Any, b: Any, wanted: tuple[str, ...] = SLOTS) -> list[Any]:
    """Return the similarity, and its requested gradients."""
    given = {"a": a, "b": b, "out_grad": np.linspace(1, 2, len(a), dtype=a.dtype)[:, None]}
    block = ow.Program().global_block()
    for slot, array in given.items():
        block.create_var(slot, array.shape, str(a.dtype))
    attrs = {"scale": 0.1}
    block.append_op("cosine.similarity", {"a": "a", "b": "b"}, {"out": "out"}, attrs)
    grads = {slot: slot for slot in wanted}
    block.append_op("cosine.similarity_grad", {slot: slot for slot in given}, grads, attrs)
    fetch = ["out", *wanted]
    return ow.Network(block).compile(feed=list(given), fetch=fetch, device=device)(**given)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 7), (1, 1), (0, 3), (3, 0), (5, 127), (2, 129), (3, 1000)])
def test_similarity_and_gradient_match_the_cpu(shape, dtype):
    a, b = RNG.normal(size=(2, *shape)).astype(dtype)
    a[-1:] = 0
    eps = np.finfo(dtype).eps
    for got, expected in zip(*(compute(name, a, b) for name in DEVICES), strict=True):
        np.testing.assert_allclose(got, expected, rtol=4 * eps, atol=4 * eps)


def test_an_unrequested_gradient_is_not_computed():
    a, b = RNG.normal(size=(2, 3, 5))
    for got, expected in zip(*(compute(name, a, b, ("b_grad",)) for name in DEVICES), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-14)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("op_type", ["cosine.similarity", "cosine.similarity_grad"])
def test_a_kernel_conforms(op_type):
    subject = f"{op_type}[cuda, cosine]"
    for sample in SAMPLES:
        card = check_package(
            "opwright-cosine", subject=subject, rules=RULES, dtype="float32", sample=sample
        )
        assert card.ok, card.format_findings(card.findings)
        checked = {result.rule for result in card.results if result.state == "passed"}
        assert {"reference", "guard-bytes", "writes-every-element"} <= checked
