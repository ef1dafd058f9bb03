"""The pass ``fuse_packed_attention`` reads interleaved heads and does not change results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

PASSES = ["remove_identities", "fuse_packed_attention"]
APART = [0, 2, 1, 3]


class Step:
    """A training step of one self-attention layer."""

    def __init__(
        self,
        width: int = 24,
        heads: int = 3,
        *,
        causal: bool = True,
        masked: bool = False,
        scale: float | None = None,
        dtype: str = "float32",
        stacked: bool = False,
    ) -> None:
        self.main, self.startup = ow.Program(), ow.Program()
        self.width, self.dtype, self.masked = width, dtype, masked
        with ow.program_guard(self.main, self.startup):
            x = layers.data("x", shape=[None, None, width], dtype=dtype)
            mask = layers.data("mask", shape=[None, 1, 1, None], dtype="bool") if masked else None
            qkv = layers.fc(x, 3 * width, num_flatten_dims=2)
            if stacked:
                shape = [0, 0, 3, heads, width // heads]
                apart = ow.ops.transpose(ow.ops.reshape(qkv, shape=shape), axes=[2, 0, 3, 1, 4])
                q, k, v = ow.ops.unstack(apart, axis=0, num=3)
            else:
                self.parts = ow.ops.split(qkv, axis=2, num=3)
                q, k, v = (self._apart(part, heads) for part in self.parts)
            attributes = {} if scale is None else {"scale": scale}
            seen = ow.ops.scaled_dot_product_attention(
                q, k=k, v=v, mask=mask, causal=causal, **attributes
            )
            seen = seen[0] if isinstance(seen, (list, tuple)) else seen
            joined = ow.ops.reshape(ow.ops.transpose(seen, axes=APART), shape=[0, 0, width])
            self.loss = layers.mean(ow.ops.square(layers.fc(joined, width, num_flatten_dims=2)))
            nn.optimizer.SGD(0.5).minimize(self.loss)
        self.network = ow.Network(self.main.global_block())

    @staticmethod
    def _apart(part: Any, heads: int) -> Any:
        size = part.shape[2] // heads
        return ow.ops.transpose(ow.ops.reshape(part, shape=[0, 0, heads, size]), axes=APART)

    def run(
        self, passes: list[str], batch: int, time: int, fetch: list[Any] | None = None
    ) -> tuple[list[np.ndarray], Counter[str]]:
        """Return the fetches and parameters of three steps, and operator type counts."""
        scope = ow.Scope()
        ow.Network(self.startup.global_block()).run(scope)
        rng = np.random.default_rng(time)
        feed = {"x": rng.standard_normal((batch, time, self.width)).astype(self.dtype) * 3}
        if self.masked:
            feed["mask"] = rng.random((batch, 1, 1, time)) < 0.7
        fetch = [self.loss, *(fetch or [])]
        step = self.network.compile(feed=list(feed), fetch=fetch, scope=scope, passes=passes)
        found = [np.array(array) for _ in range(3) for array in step(**feed)]
        found += [scope.var(p.name).numpy() for p in self.main.parameters()]
        return found, Counter(self.network.placement().types)


def assert_same(
    step: Step, batch: int, time: int, fetch: list[Any] | None = None, tolerance: float = 1e-4
) -> Counter[str]:
    fused, types = step.run(PASSES, batch, time, fetch)
    plain, _ = step.run([], batch, time, fetch)
    for got, wanted in zip(fused, plain, strict=True):
        scale = float(np.abs(wanted).max(initial=0))
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance / 50 * scale)
    return types


n_threads = thread_counts(1, 2, 3)


# Sequence lengths near the sizes of query blocks, key blocks and vectors.
@pytest.mark.parametrize("time", [2, 31, 64, 65, 130, 400])
@pytest.mark.parametrize("causal", [False, True])
def test_a_step_gives_the_same_results_with_and_without_the_pass(time, causal, n_threads):
    types = assert_same(Step(causal=causal), 2, time)
    assert (types["cpu.packed_attention"], types["cpu.packed_attention_grad"]) == (1, 1)
    assert types["transpose"] == types["split"] == types["concat"] == 0


@pytest.mark.parametrize(
    "options", [{"masked": True}, {"scale": 0.1}, {"dtype": "float64"}], ids=str
)
def test_attention_with_a_mask_a_scale_or_float64_is_fused(options):
    is_double = options.get("dtype") == "float64"
    types = assert_same(Step(64, 2, **options), 3, 40, tolerance=1e-11 if is_double else 1e-4)
    assert (types["cpu.packed_attention"], types["cpu.packed_attention_grad"]) == (1, 1)


@pytest.mark.parametrize("masked", [False, True])
def test_queries_keys_and_values_split_from_a_stack_are_fused(masked, n_threads):
    types = assert_same(Step(masked=masked, stacked=True), 2, 65)
    assert (types["cpu.packed_attention"], types["cpu.packed_attention_grad"]) == (1, 1)
    assert types["transpose"] == types["unstack"] == types["stack"] == 0


def test_queries_with_a_single_row_do_not_need_a_transpose():
    types = assert_same(Step(), 2, 1)
    assert types["transpose"] == types["cpu.packed_attention"] == 0


def test_an_empty_batch_is_fused():
    types = Step().run(PASSES, 0, 5)[1]
    assert types["cpu.packed_attention"] == 1


def test_fetched_queries_keys_and_values_are_still_computed():
    step = Step()
    types = assert_same(step, 2, 20, [step.parts[1]])
    assert (types["split"], types["cpu.packed_attention"]) == (1, 0)


def test_queries_keys_and_values_in_a_different_order_are_not_fused():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        qkv = layers.data("qkv", shape=[2, 8, 24])
        q, k, v = ow.ops.split(qkv, axis=2, num=3)
        k, q, v = (Step._apart(part, 2) for part in (q, k, v))
        seen = ow.ops.scaled_dot_product_attention(q, k=k, v=v)
        seen = seen[0] if isinstance(seen, (list, tuple)) else seen
        out = ow.ops.transpose(seen, axes=APART)
    network = ow.Network(main.global_block())
    feed = {"qkv": np.random.default_rng(0).standard_normal((2, 8, 24)).astype("float32")}
    fused = network.compile(feed=["qkv"], fetch=[out], passes=PASSES)(**feed)[0]
    assert Counter(network.placement().types)["cpu.packed_attention"] == 0
    np.testing.assert_array_equal(
        fused, network.compile(feed=["qkv"], fetch=[out], passes=[])(**feed)[0]
    )
