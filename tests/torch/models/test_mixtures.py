"""Mixtures of experts run with each experts implementation of transformers, also in bfloat16."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
import torch
from mixtures import mixtures

import opwright_torch
from every_case import EVERY

NAMES: Final = [name for name, *_ in mixtures()] if EVERY else ["qwen2_moe", "deepseek_v2_greedy"]


def make(name: str, implementation: str | None = None) -> Any:
    torch.manual_seed(3)
    (model,) = (kind(config) for known, kind, config in mixtures() if known == name)
    if implementation is not None:
        model.set_experts_implementation(implementation)
    return model.eval()


def tokens() -> torch.Tensor:
    return torch.randint(0, 90, (2, 12), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_experts_become_grouped_products_that_read_stored_weights(
    name: str, dtype: torch.dtype
) -> None:
    model = make(name).to(dtype)
    program = opwright_torch.to_program(model, (tokens(),), {"input_ids": {1: "length"}})
    ops = program.program.global_block().ops
    products = [op for op in ops if op.type == "grouped_matmul"]
    parameters = dict(model.named_parameters())
    assert sorted(op.input("weight")[0] for op in products) == sorted(
        name for name, value in parameters.items() if value.ndim == 3
    )
    with torch.no_grad():
        wanted = model(tokens()).logits.float().numpy()
    (got,) = program(tokens().numpy())
    bound = 1e-5 if dtype == torch.float32 else 2e-2
    assert np.linalg.norm(np.asarray(got, "f4") - wanted) < bound * np.linalg.norm(wanted)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("implementation", ["eager", "batched_mm"])
def test_other_experts_implementations_are_trained_in_plans(implementation: str) -> None:
    torch._dynamo.reset()
    model = make("qwen2_moe", implementation)
    compiled = torch.compile(model, backend="opwright")
    results = []
    for called in (model, compiled):
        model.zero_grad()
        loss = called(tokens(), labels=tokens()).loss
        loss.backward()
        gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        results.append({"loss": loss.detach(), **gradients})
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)
    torch._dynamo.reset()
