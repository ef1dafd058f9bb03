"""The pass ``fuse_gelu_fc`` fuses only layers after gelu and does not change training results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

PASSES = ["remove_identities", "fuse_gelu_fc"]
ROWS, INPUTS = 4, 24


class Step:
    """A training step of layers with gelu between them."""

    def __init__(
        self,
        hidden: int = 80,
        outputs: int = 48,
        *,
        rank: int = 3,
        bias: bool = True,
        approximate: str = "none",
        dtype: str = "float32",
    ) -> None:
        self.main, self.startup = ow.Program(), ow.Program()
        self.dtype, self.rank = dtype, rank
        with ow.program_guard(self.main, self.startup):
            x = layers.data("x", shape=[None] * (rank - 1) + [INPUTS], dtype=dtype)
            before = layers.fc(x, hidden, num_flatten_dims=rank - 1, bias=bias)
            self.activated = ow.ops.gelu(before, approximate=approximate)
            after = layers.fc(self.activated, outputs, num_flatten_dims=rank - 1, bias=bias)
            self.loss = layers.mean(ow.ops.square(after))
            nn.optimizer.SGD(0.5).minimize(self.loss)
        self.network = ow.Network(self.main.global_block())

    def run(
        self, passes: list[str] | None, rows: int = 130, fetch: list[Any] | None = None
    ) -> tuple[list[np.ndarray], Counter[str]]:
        """Return the fetches and parameters of three steps, and operator type counts."""
        scope = ow.Scope()
        ow.Network(self.startup.global_block()).run(scope)
        shape = (rows, INPUTS) if self.rank == 2 else (ROWS, rows // ROWS, INPUTS)
        x = np.random.default_rng(8).standard_normal(shape).astype(self.dtype) * 3
        fetch = [self.loss, *(fetch or [])]
        step = self.network.compile(feed=["x"], fetch=fetch, scope=scope, passes=passes)
        found = [np.array(array) for _ in range(3) for array in step(x=x)]
        found += [scope.var(p.name).numpy() for p in self.main.parameters()]
        return found, Counter(self.network.placement().types)


def assert_same(step: Step, rows: int = 130, fetch: list[Any] | None = None) -> Counter[str]:
    fused, types = step.run(PASSES, rows, fetch)
    plain, _ = step.run([], rows, fetch)
    for got, wanted in zip(fused, plain, strict=True):
        scale = float(np.abs(wanted).max())
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-6 * scale)
    return types


# Numbers of rows, hidden columns and output columns near tile, panel and block sizes.
SIZES = [(48, 16, 16), (130, 80, 48), (253, 272, 144), (600, 528, 80), (64, 1040, 64)]


n_threads = thread_counts(1, 2, 3)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_a_step_gives_the_same_results_with_and_without_the_pass(size, n_threads):
    rows, hidden, outputs = size
    types = assert_same(Step(hidden, outputs, rank=2), rows)
    assert (types["cpu.gelu_fc"], types["cpu.gelu_fc_grad"]) == (1, 1)
    assert types["gelu"] == types["gelu_grad"] == 0


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("bias", [False, True])
def test_inputs_with_several_row_axes_are_fused(approximate, bias):
    types = assert_same(Step(approximate=approximate, bias=bias), 256)
    assert (types["cpu.gelu_fc"], types["cpu.gelu_fc_grad"]) == (1, 1)
    assert types["sum_like"] == int(bias)  # the bias gradient of the second layer


def test_results_are_bitwise_identical_for_any_number_of_threads():
    before, results = ow.get_num_threads(), []
    for count in (1, 2, 3, 5):
        ow.set_num_threads(count)
        results.append(Step(272, 144, rank=2).run(PASSES, 253)[0])
    ow.set_num_threads(before)
    for result in results[1:]:
        for got, wanted in zip(result[:1], results[0][:1], strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_a_fetched_output_of_gelu_is_kept():
    step = Step()
    types = assert_same(step, 256, [step.activated])
    assert (types["gelu"], types["cpu.gelu_fc"], types["cpu.gelu_fc_grad"]) == (1, 0, 1)


@pytest.mark.parametrize(
    ("step", "rows"),
    [(Step(72, 48), 256), (Step(80, 40), 256), (Step(), 44), (Step(dtype="float64"), 256)],
    ids=["hidden columns", "output columns", "few rows", "float64"],
)
def test_unsupported_training_steps_are_not_fused(step, rows):
    types = assert_same(step, rows)
    assert types["cpu.gelu_fc"] == types["cpu.gelu_fc_grad"] == 0
    assert types["gelu_grad"] == 1


def test_a_layer_that_is_not_trained_keeps_its_packed_weight():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        h = layers.fc(layers.data("x", shape=[None, 32]), 64)
        out = layers.fc(ow.ops.gelu(h), 32)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    network = ow.Network(main.global_block())
    network.compile(feed=["x"], fetch=[out], scope=scope)(x=np.ones((64, 32), "float32"))
    assert Counter(network.placement().types) == {"fc": 2, "gelu": 1}


def test_nan_affects_only_its_row():
    step = Step(80, 48, rank=2)
    block = step.main.global_block()
    scope = ow.Scope()
    ow.Network(step.startup.global_block()).run(scope)
    grads = [block.var(f"{p.name}_grad") for p in step.main.parameters()]
    run = step.network.compile(feed=["x"], fetch=[step.loss, *grads], scope=scope, passes=PASSES)
    x = np.ones((64, INPUTS), "float32")
    assert all(np.isfinite(array).all() for array in run(x=x))
    x[5, 0] = np.nan
    assert all(np.isnan(array).all() for array in run(x=x))
