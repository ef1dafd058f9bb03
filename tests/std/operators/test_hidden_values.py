"""Hidden values have no effect, even if they are NaN, infinite or huge.

Hidden values are the padding of sequences, masked keys, a matrix that is multiplied by 0, and
neighbors of weight 0. The tests check the outputs and gradients of every library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from case import Array, Case, Random, Values
from one_operator import Target, build, compiled, pinned
from table import load_cases, over_targets
from test_empty_gradients import can_have_gradient, differentiable
from test_gradients import weighted_sum

import opwright as ow
from opwright.vocabulary import STEP_SLOT

STRANGE = (np.nan, np.inf, -np.inf, 1e30)
MOVED = {"sequence_reverse"}
"""Operators whose output equals x beyond the lengths."""

TIME_FIRST = {"lstm", "gru", "rnn", "general_lstm"}
HIDDEN_KEYS = [[True, True, False, True, False]]


def attention(mask: Any = None, queries: int = 3, **attrs: Any) -> Case:
    inputs = {"q": Random((2, queries, 4)), "k": Random((2, 5, 4)), "v": Random((2, 5, 3))}
    if mask is not None:
        inputs["mask"] = mask
    return Case("scaled_dot_product_attention", inputs, None, attrs, label=f"hidden-{len(attrs)}")


def hidden_keys(case: Case) -> Array:
    """Return which of the five keys are masked for every query."""
    if "mask" not in case.inputs:
        return np.arange(5) >= case.make_inputs("float64")["q"][0].shape[1]
    return ~np.array(HIDDEN_KEYS[0])


NEVER = [[0.0, 1.0, -np.inf, 0.5, -np.inf]]
MASKED = (
    attention(Values(HIDDEN_KEYS, "bool")),
    attention(Values(NEVER), scale=0.5),
    attention(causal=True, scale=0.5),
)
GEMM = tuple(
    Case(
        "gemm",
        {"a": Random((3, 4)), "b": Random((4, 5)), "c": Random(shape)},
        None,
        {"beta": 0.0, "alpha": alpha},
        label=f"{alpha}-{len(shape)}",
    )
    for alpha in (1.0, 0.5)
    for shape in ((3, 5), (5,))
)


def places_of(case: Case, inputs: Mapping[str, Sequence[Array]]) -> dict[str, Array]:
    """Return which elements of which inputs are hidden."""
    if case.op == "gemm":
        return {"c": np.ones(inputs["c"][0].shape, bool)}
    if case.op == "scaled_dot_product_attention":
        seen = hidden_keys(case)[:, None]
        return {slot: np.broadcast_to(seen, inputs[slot][0].shape) for slot in "kv"}
    (lengths,), (x,) = inputs["lengths"], inputs["x"]
    if case.op in TIME_FIRST and not case.attrs.get("batch_first"):
        behind = np.arange(x.shape[0])[:, None] >= lengths
    else:
        behind = np.arange(x.shape[1]) >= lengths[:, None]
    return {"x": np.broadcast_to(behind.reshape(*behind.shape, *[1] * (x.ndim - 2)), x.shape)}


def is_hiding(case: Case) -> bool:
    if "lengths" not in case.inputs or "x" not in case.inputs:
        return False
    (x,) = case.make_inputs(case.dtypes[-1])["x"]
    return x.dtype.kind == "f" and x.ndim > 1 and case.op != "sequence_unpack"


def hiding() -> Iterator[tuple[Case, str]]:
    for case in (*filter(is_hiding, load_cases()), *MASKED, *GEMM):
        for dtype in case.dtypes:
            if np.dtype(dtype).kind == "f" and dtype != "float16":
                yield case, dtype


def compute(
    case: Case, inputs: Mapping[str, Sequence[Array]], places: Mapping[str, Array], target: Target
) -> list[Array]:
    """Return the outputs, and the gradients of a loss, without the padding of MOVED operators."""
    one = build(case, inputs)
    names = differentiable(one) if can_have_gradient(one.definition) and not case.no_grad else []
    outputs = [v for listed in one.outputs.values() for v in listed]
    losses = []
    rng = np.random.default_rng(1)
    for slot in one.definition.proto.outputs:
        for variable in one.outputs[slot.name] if names else ():
            if slot.intermediate or slot.aliases or not variable.dtype.startswith("float"):
                continue
            shape = tuple(variable.shape)
            if -1 in shape:
                return run(one, outputs, [], case, places, target)
            weight = rng.standard_normal(shape)
            if case.op in MOVED:
                weight = np.where(places["x"], 0, weight)
            losses.append(weighted_sum(one, variable, weight.astype(variable.dtype)))
    grads = [g for _, g in ow.append_backward(losses, parameters=names)] if losses else []
    return run(one, outputs, grads, case, places, target)


def run(one: Any, outputs: Any, grads: Any, case: Case, places: Any, target: Target) -> list[Array]:
    with pinned(case, target), np.errstate(all="ignore"):
        fetch = [*outputs, *grads]
        results = compiled(one.block, one.feeds, fetch, target.device)(**one.feeds)
    if case.op in MOVED:
        results[0] = np.where(places["x"], 0, results[0])
    return list(results)


@over_targets(hiding)
def test_hidden_values_have_no_effect(case: Case, dtype: str, target: Target) -> None:
    inputs = case.make_inputs(dtype)
    inputs.pop(STEP_SLOT, None)
    places = places_of(case, inputs)
    expected = compute(case, inputs, places, target)
    for strange in STRANGE:
        changed = {
            slot: [
                np.where(places[slot], a.dtype.type(strange), a) if slot in places else a
                for a in listed
            ]
            for slot, listed in inputs.items()
        }
        for got, wanted in zip(compute(case, changed, places, target), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6, err_msg=f"{strange}")


@pytest.mark.parametrize("library", ["native", "numpy"])
def test_causal_attention_ignores_future_keys_and_values(library: str) -> None:
    case = Case(
        "scaled_dot_product_attention",
        {"q": Random((1, 70, 4)), "k": Random((1, 70, 4)), "v": Random((1, 70, 4))},
        None,
        {"causal": True},
    )
    inputs, target = case.make_inputs("float32"), Target("cpu", library)
    expected = compute(case, inputs, {}, target)[0]
    for strange in STRANGE:
        for slot in "kv":
            changed = {**inputs, slot: [inputs[slot][0].copy()]}
            changed[slot][0][:, 40:] = strange
            got = compute(case, changed, {}, target)[0]
            np.testing.assert_allclose(got[:, :40], expected[:, :40], rtol=1e-5, atol=1e-6)


LINEAR = ("interpolate", "roi_align", "avg_pool1d", "avg_pool2d", "avg_pool3d")
LINEAR += ("adaptive_avg_pool2d", "adaptive_avg_pool3d", "pad", "resize")
FEW = 150
"""Maximum size of x: each element is NaN once."""


def weighing() -> Iterator[tuple[Case, str]]:
    for case in load_cases():
        if case.op in LINEAR and "float32" in case.dtypes:
            (x,) = case.make_inputs("float32")["x"]
            if 0 < x.size <= FEW and np.isfinite(x).all():
                yield case, "float32"


@over_targets(weighing)
def test_elements_of_weight_0_are_not_read(case: Case, dtype: str, target: Target) -> None:
    inputs = case.make_inputs(dtype)
    one = build(case, inputs)
    x, out = one.inputs["x"][0], one.outputs["out"][0]
    x.stop_gradient = False
    if -1 in out.shape or 0 in out.shape:
        return
    weight = one.block.create_var("weight", out.shape, dtype)
    loss = ow.ops.sum(ow.ops.multiply(out, weight))
    ((_, gradient),) = ow.append_backward([loss], parameters=[x])
    ones = np.ones(out.shape, dtype)
    with pinned(case, target), np.errstate(all="ignore"):
        feeds = {**one.feeds, "weight": ones}
        run_both = compiled(one.block, feeds, [out, gradient], target.device)
        base = run_both(**feeds)
        at_zero = run_both(**{**feeds, "x": np.zeros_like(feeds["x"])})[0]
        for place in np.ndindex(feeds["x"].shape):
            unit, strange = np.zeros_like(feeds["x"]), feeds["x"].copy()
            unit[place], strange[place] = 1, np.nan
            reads = run_both(**{**feeds, "x": unit})[0] != at_zero
            got = run_both(**{**feeds, "x": strange})[0]
            np.testing.assert_array_equal(np.isnan(got), reads, err_msg=f"x{list(place)}")
        for place in np.ndindex(ones.shape):
            unit, strange = np.zeros_like(ones), ones.copy()
            unit[place], strange[place] = 1, np.nan
            reads = run_both(**{**feeds, "weight": unit})[1] != 0
            got = run_both(**{**feeds, "weight": strange})[1]
            np.testing.assert_array_equal(np.isnan(got), reads, err_msg=f"out{list(place)}")
        np.testing.assert_array_equal(run_both(**feeds)[0], base[0])
