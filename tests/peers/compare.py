"""Compares the results of a case on a target with peer results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from case import Array, Case
from choices import GRADIENTS, OUTPUTS, Mask
from one_operator import OneOperator, Target, build, compiled, graded_slots, pinned
from peer import Peer, Request, request_of, widen
from test_gradients import append, float_inputs, weighted_sum

import opwright as ow
from opwright.errors import KernelError, KernelNotFoundError
from opwright.op import dtype_to_numpy
from opwright_kit.testing.rules.reference import EPSILON

ULPS = {"radam": 64.0}
"""Optimizers that lose more precision, since the rectification subtracts close numbers."""

SCANS = ("logcumsumexp",)
"""Operators whose outputs have the shape of x, but are sums in a different order from PyTorch."""


def is_float(dtype: Any) -> bool:
    name = getattr(dtype, "name", dtype)
    return name in EPSILON


def check(case: Case, dtype: str, target: Target, peer: Peer) -> None:
    """Compare all outputs and all gradients of a case with the peer results."""
    ulps = ULPS.get(case.op, 16.0)
    arrays = case.make_inputs(dtype)
    one = build(case, arrays)
    request = request_of(one)
    fetch = list(request.fetch)
    inputs = float_inputs(one, graded_slots(case, arrays))
    wanted = [variable.name for variable in inputs if is_float(variable.dtype)]
    gradients = wanted if add_weights(one, request) else []
    try:
        try:
            computed = run(case, one, target, fetch, request, gradients)
        except KernelNotFoundError:  # a library may lack the gradient in this dtype
            one, gradients = build(case, arrays), []
            computed = run(case, one, target, fetch, request, [])
    except KernelNotFoundError as error:
        if " refused: " not in str(error):
            raise
        pytest.skip(f"{target.library} leaves this size to another library")
    if gradients:
        request.wanted = wanted
    outputs, grads = peer.ask_any(request)
    assert outputs or grads, "nothing was compared"
    terms = count_terms(one, computed[fetch[0]])
    for name, expected in outputs.items():
        mask = OUTPUTS.get(case.op) if name == fetch[0] else None
        got, wanted_here = leave_out(mask, request.feed, computed[name], expected)
        compare(f"{case}: {name}", got, wanted_here, ulps, terms)
    for name, expected in grads.items():
        mask = GRADIENTS.get(case.op)
        got, wanted_here = leave_out(mask, request.feed, computed[f"grad of {name}"], expected)
        compare(f"{case}: gradient of {name}", got, wanted_here, ulps, terms)


def count_terms(one: OneOperator, out: Array) -> int:
    """Estimate the number of terms that are summed in each element of an output."""
    arrays = list(one.feeds.values())
    longest = max((length for array in arrays for length in array.shape), default=1)
    shares = [array.size // max(out.size, 1) for array in arrays]
    rows = [array.size // max(array.shape[0], 1) for array in arrays[1:] if array.ndim > 2]
    alike = all(array.size <= 1 or array.shape == out.shape for array in arrays)
    is_scan = one.definition.proto.type in SCANS
    return 1 if alike and not is_scan else max(longest, *shares, *rows, 1)


def leave_out(
    mask: Mask | None, feed: Mapping[str, Array], got: Array, expected: Array
) -> tuple[Array, Array]:
    """Zero the elements that differ intentionally, and gradients that sum such elements."""
    if mask is None:
        return got, expected
    marked = mask(feed)
    if marked.shape != got.shape:
        marked = np.broadcast_to(marked.any(), got.shape)
    return np.where(marked, got.dtype.type(0), got), np.where(marked, 0, expected)


def add_weights(one: OneOperator, request: Request) -> bool:
    """Weight the first float output randomly; return whether a float output exists."""
    rng = np.random.default_rng(0)
    for slot in one.definition.proto.outputs:
        for variable in one.outputs[slot.name]:
            if not is_float(variable.dtype) or slot.intermediate or slot.aliases:
                continue
            if -1 in variable.shape:
                continue
            weight = np.asarray(rng.standard_normal(variable.shape)).astype(np.float16)
            request.weights[variable.name] = weight.astype(np.float64)
    return bool(request.weights)


def run(
    case: Case,
    one: OneOperator,
    target: Target,
    fetch: list[str],
    request: Request,
    wanted: list[str],
) -> dict[str, Array]:
    """Return our outputs by name, and our gradients as ``grad of NAME``."""
    names = dict(zip(fetch, fetch, strict=True))
    if wanted:
        parts = []
        for name, weight in request.weights.items():
            variable = one.block.var(name)
            cast = weight.astype(dtype_to_numpy(variable.dtype))
            parts.append(weighted_sum(one, variable, cast))
        loss = append(one.block, "add_n", {"x": parts})
        pairs = ow.append_backward([loss], parameters=wanted)
        names |= {f"grad of {v.name}": gradient.name for v, gradient in pairs}
    with pinned(case, target), np.errstate(all="ignore"):
        function = compiled(one.block, one.feeds, list(names.values()), target.device)
        try:
            results = function(**one.feeds)
        except KernelError as error:  # drawn positions can be out of range
            if " must be in [" not in str(error):
                raise
            pytest.skip("positions outside of their range")
    return dict(zip(names, results, strict=True))


def compare(where: str, got: Array, expected: Array, ulps: float, terms: int) -> None:
    """Compare one array with the float64 result of a peer."""
    assert got.shape == expected.shape, f"{where}: {got.shape}, {expected.shape}"
    if not is_float(got.dtype):
        np.testing.assert_array_equal(widen(got), expected, err_msg=where)
        return
    relative = ulps * EPSILON[got.dtype.name] * float(np.sqrt(max(terms, 1)))
    with np.errstate(all="ignore"):
        rounded = widen(np.asarray(expected, np.float64).astype(got.dtype))
        finite = np.abs(rounded[np.isfinite(rounded)])
    size = float(np.max(finite, initial=1.0))  # tests/std/operators are stricter with small numbers
    # Results near the limits of a 16-bit dtype can have overflowed in intermediate steps.
    inside = ~(np.abs(rounded) > np.finfo(np.float16).max / 4) | (got.dtype.itemsize > 2)
    np.testing.assert_allclose(
        np.where(inside, widen(got), 0),
        np.where(inside, rounded, 0),
        rtol=relative,
        atol=relative * size,
        err_msg=where,
    )
