"""Test cases of group_norm and instance_norm."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def group_norm(
    x: Array,
    scale: Array | None = None,
    bias: Array | None = None,
    epsilon: float = 1e-5,
    groups: int = 1,
) -> tuple[Array, Array, Array]:
    rows = x.reshape(x.shape[0], groups, -1) if x.size else np.zeros((x.shape[0], groups, 1))
    mean = rows.mean(2)
    inv_std = 1 / np.sqrt(rows.var(2) + epsilon) if x.size else 0 * mean
    channels = (1, x.shape[1], *[1] * (x.ndim - 2))
    out = np.zeros(x.shape)
    if x.size:
        out = ((rows - mean[..., None]) * inv_std[..., None]).reshape(x.shape)
    out = out if scale is None else out * scale.reshape(channels)
    return out if bias is None else out + bias.reshape(channels), mean, inv_std


def instance_norm(x: Array, epsilon: float = 1e-5, **given: Array) -> tuple[Array, Array, Array]:
    return group_norm(x, **given, epsilon=epsilon, groups=x.shape[1])


def case(
    op: str, shape: tuple[int, ...], label: str, slots: str = "scale bias", **attrs: Any
) -> Case:
    inputs: dict[str, Source] = {"x": Random(shape)}
    for slot in slots.split():
        inputs[slot] = Random(shape[1:2])
    expected = group_norm if op == "group_norm" else instance_norm
    return Case(op, inputs, expected, attrs, label=label, terms=16, magnitude=4.0, ulps=8)


def equal_elements(op: str, **attrs: Any) -> Case:
    """Return the case of rows whose elements are equal, so all deviations are exactly 0."""

    def expected(x: Array, **given: Any) -> tuple[Array, Array, Array]:
        rows = x[:, :2, 0]
        return 0 * x, rows, np.full(rows.shape, 1e-5**-0.5)

    values = Values(np.array([[0.1, 1e4 / 3], [-7e5 / 9, 7.0]])[..., None] * np.ones(1030))
    reason = "differences are large beside deviations of 0"
    given = {"epsilon": 1e-5, **attrs}
    return Case(op, {"x": values}, expected, given, label="equal", magnitude=0, no_grad=reason)


CASES = (
    *(case("group_norm", (2, 6, n), str(n), groups=2) for n in LENGTHS if n),
    *(case("group_norm", (3, n), f"channels-{n}", groups=1) for n in LENGTHS if n > 1),
    case("group_norm", (0, 4, 3), "empty", groups=2),
    case("group_norm", (2, 4, 0), "empty-rows", groups=2),
    case("group_norm", (2, 4, 3), "plain", "", groups=2),
    case("group_norm", (2, 4, 3), "scale-only", "scale", groups=2),
    case("group_norm", (2, 4, 3), "bias-only", "bias", groups=4),
    case("group_norm", (2, 4, 3, 2), "images", groups=2, epsilon=0.5),
    case("group_norm", (3, 4, 37, 41), "large-images", groups=2),
    equal_elements("group_norm", groups=2),
    *(case("instance_norm", (2, 3, n), str(n)) for n in LENGTHS if n > 1),
    case("instance_norm", (2, 3, 1), "1", epsilon=0.1),
    case("instance_norm", (0, 4, 3), "empty"),
    case("instance_norm", (2, 0, 3), "no-channels"),
    case("instance_norm", (2, 4, 3), "plain", ""),
    case("instance_norm", (2, 4, 3, 2), "images", epsilon=0.5),
    equal_elements("instance_norm"),
    Case(
        "group_norm",
        # The mean is large: a difference of squares would lose the variance to cancellation.
        {"x": Values([[10000.0, 10001.0, 10002.0, 10003.0], [1.0, 1.0, 1.0, 1.0]])},
        group_norm,
        {"groups": 1},
        label="large-mean",
        magnitude=4.0,
        ulps=16,
    ),
)
