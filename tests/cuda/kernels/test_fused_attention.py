"""Attention on tensor cores: results and gradients match those of the CPU in float32."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelNotFoundError
from opwright.op import dtype_to_numpy
from opwright_cuda.kernels.attention import Extents
from opwright_cuda.kernels.fused_attention import find_refusal
from opwright_nn import layers

pytestmark = pytest.mark.cuda_kernels

PINNED = ("scaled_dot_product_attention", "scaled_dot_product_attention_grad")

MANY_GROUPS = 16
"""Enough groups of 70 rows for two strips of rows in each warp, on the emulated GPU."""


class Call(NamedTuple):
    """The shapes of a call, and its mask: its shape and whether it is bool."""

    q: tuple[int, ...]
    k: tuple[int, ...]
    columns: int
    mask: tuple[int, ...] | None = None
    is_bool: bool = True
    attrs: tuple[tuple[str, Any], ...] = ()

    def feeds(self, dtype: str) -> dict[str, np.ndarray]:
        """Return the inputs, rounded to the dtype."""
        rng = np.random.default_rng(7)
        shapes = {"q": self.q, "k": self.k, "v": (*self.k[:-1], self.columns)}
        shapes["weight"] = (*self.q[:-1], self.columns)
        feeds = {name: rng.normal(size=shape) for name, shape in shapes.items()}
        if self.mask is not None:
            mask = rng.random(self.mask) < 0.6
            feeds["mask"] = (
                mask if self.is_bool else np.where(mask, rng.normal(size=self.mask), -np.inf)
            )
        kind = dtype_to_numpy(dtype)
        return {n: a if a.dtype == bool else a.astype(kind) for n, a in feeds.items()}


def run(
    call: Call,
    feeds: dict[str, np.ndarray],
    device: str,
    dtype: str,
    wanted: str = "qkv",
    library: str = "tensor_cores",
) -> list[np.ndarray]:
    """Return the result and the wanted gradients."""
    if device == "cpu":
        feeds = {n: a if a.dtype == bool else a.astype("float32") for n, a in feeds.items()}
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        variables = {
            name: layers.data(name, [*array.shape], "bool" if array.dtype == bool else dtype)
            for name, array in feeds.items()
        }
        for name in wanted:
            variables[name].stop_gradient = False
        weight = variables.pop("weight")
        out = ow.ops.scaled_dot_product_attention(**variables, **dict(call.attrs))
        parameters = [variables[name] for name in wanted]
        pairs = ow.append_backward(out, parameters, grads={out: weight})
    pins = dict.fromkeys(PINNED, library) if device == "cuda" and library else {}
    with ow.context_guard(ow.current_context().with_pins(pins)):
        network = ow.Network(main.global_block())
        fetch = [out, *(gradient for _, gradient in pairs)]
        arrays = network.compile(feed=[*feeds], fetch=fetch, device=device)(**feeds)
    return [np.asarray(array).astype("float64") for array in arrays]


CALLS = {
    "tile": Call((64, 16), (64, 16), 16),
    "ragged": Call((2, 70, 40), (2, 81, 40), 24),
    "wide": Call((1, 17, 128), (1, 70, 128), 96),
    "one-query": Call((3, 1, 64), (3, 150, 64), 64),
    "causal": Call((2, 90, 32), (2, 90, 32), 32, attrs=(("causal", True),)),
    "causal-heads": Call((1, 4, 37, 16), (1, 2, 50, 16), 16, attrs=(("causal", True),)),
    "scale": Call((1, 20, 16), (1, 30, 16), 16, attrs=(("scale", 0.5),)),
    "mask": Call((2, 3, 20, 16), (2, 3, 70, 16), 16, (2, 1, 20, 70)),
    "mask-of-keys": Call((2, 2, 20, 16), (2, 1, 70, 16), 16, (2, 1, 1, 70)),
    "added-mask": Call((2, 3, 20, 16), (2, 3, 70, 16), 16, (1, 3, 20, 70), is_bool=False),
    "causal-mask": Call((2, 70, 16), (2, 70, 16), 16, (70, 70), attrs=(("causal", True),)),
}


def assert_close(found: list[np.ndarray], expected: list[np.ndarray], dtype: str) -> None:
    tolerance = 0.02 if dtype == "bfloat16" else 0.003
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other), err_msg=str(i))
        finite = np.isfinite(other)
        size = float(np.max(np.abs(other[finite]), initial=1.0))
        np.testing.assert_allclose(
            one[finite], other[finite], rtol=0, atol=tolerance * size, err_msg=str(i)
        )


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float16") for name in CALLS), ("added-mask", "bfloat16")]
)
def test_results_and_gradients_match_the_cpu(name: str, dtype: str) -> None:
    call = CALLS[name]
    feeds = call.feeds(dtype)
    assert_close(run(call, feeds, "cuda", dtype), run(call, feeds, "cpu", "float32"), dtype)


@pytest.mark.parametrize("library", ["tensor_cores", "native"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_nothing_reaches_a_result_from_hidden_keys(is_causal: bool, library: str) -> None:
    attrs = (("causal", True),) if is_causal else ()
    call = Call((2, 20, 16), (2, 70, 16), 16, None if is_causal else (1, 1, 70), attrs=attrs)
    feeds = call.feeds("float16")
    hidden = [3, 15] if is_causal else np.flatnonzero(~feeds["mask"][0, 0])
    feeds["k"][0, hidden] = np.nan
    feeds["v"][0, hidden] = np.inf
    expected = run(call, feeds, "cpu", "float32")
    # Queries before key 3 do not see it; later queries do.
    assert np.isfinite(expected[0][0, :3]).all()
    assert np.isfinite(expected[0]).all() != is_causal
    assert_close(run(call, feeds, "cuda", "float16", library=library), expected, "float16")


def test_two_strips_of_queries_match_the_cpu(launched: list[str]) -> None:
    call = Call((MANY_GROUPS, 70, 16), (MANY_GROUPS, 40, 16), 16)
    feeds = call.feeds("float16")
    found = run(call, feeds, "cuda", "float16")
    assert "fused_attention<Half, 16, 16, 2>" in launched
    assert_close(found, run(call, feeds, "cpu", "float32"), "float16")


@pytest.mark.parametrize("mask", [None, (1, 1, 1, 330)])
def test_parts_of_the_keys_are_combined(mask: tuple[int, ...] | None, launched: list[str]) -> None:
    call = Call((1, 2, 1, 16), (1, 1, 330, 16), 16, mask)
    feeds = call.feeds("float16")
    if mask:
        feeds["mask"][..., :140] = False  # the first part is hidden
    found = run(call, feeds, "cuda", "float16")
    assert "combine_attention<Half>" in launched
    assert_close(found, run(call, feeds, "cpu", "float32"), "float16")


@pytest.mark.parametrize("wanted", ["q", "k", "v"])
def test_only_wanted_gradients_are_computed(wanted: str, launched: list[str]) -> None:
    call = Call((20, 16), (30, 16), 16, (20, 30))
    feeds = call.feeds("float16")
    (found,) = run(call, feeds, "cuda", "float16", wanted)[1:]
    n_grads = sum(name.startswith("fused_attention_grad") for name in launched)
    assert n_grads == 1
    assert_close([found], run(call, feeds, "cpu", "float32", wanted)[1:], "float16")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"size": 20}, "q must have a last axis of a multiple of 8, up to 128, got 20"),
        ({"columns": 136}, "v must have a last axis of a multiple of 8, up to 128, got 136"),
        ({"keys": 0}, "there are no scores"),
        ({}, None),
    ],
)
def test_refusals_name_the_limit(changes: dict[str, int], reason: str | None) -> None:
    extents = Extents(2, 20, 30, 16, 16, 20, "float16", False)._replace(**changes)
    assert find_refusal(extents) == reason


def test_the_kernels_run_only_if_they_are_pinned(launched: list[str]) -> None:
    call = Call((20, 16), (30, 16), 16)
    run(call, call.feeds("float16"), "cuda", "float16", library="")
    assert not any(name.startswith("fused_attention") for name in launched)
    with pytest.raises(KernelNotFoundError, match="tensor_cores of .* refused: q must have"):
        run(
            Call((20, 4), (30, 4), 8), Call((20, 4), (30, 4), 8).feeds("float16"), "cuda", "float16"
        )
