"""Test cases of losses that take a score and a label, or two scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values

INF, NAN = float("inf"), float("nan")
APART = "compared with a formula"


def l1(x: Array, label: Array) -> Array:
    return np.abs(x - label)


def huber(x: Array, label: Array, delta: float) -> Array:
    d = np.abs(x - label)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


def smooth_l1(x: Array, label: Array, beta: float = 1.0) -> Array:
    d = np.abs(x - label)
    return np.where(d < beta, d * d / 2 / (beta or 1), d - beta / 2)


def hinge(x: Array, label: Array) -> Array:
    return np.maximum(0, 1 - x * label)


def log_loss(x: Array, label: Array, epsilon: float = 1e-4) -> Array:
    return -label * np.log(x + epsilon) - (1 - label) * np.log(1 - x + epsilon)


def kl_div(x: Array, label: Array, log_label: bool = False) -> Array:
    if log_label:
        return np.exp(label) * (label - x)
    return label * (np.log(label) - x)


def margin_rank_loss(x: Array, y: Array, label: Array, margin: float = 0.0) -> Array:
    return np.maximum(0, margin - label * (x - y))


def rank_loss(x: Array, y: Array, label: Array) -> Array:
    return np.logaddexp(0, x - y) - label * (x - y)


# Labels are chosen so that no difference is at a kink.
APART_FROM = {"low": 2.5, "high": 3.5}
SHARE = {"low": 0.1, "high": 0.9}
KINDS: tuple[tuple[str, Callable[..., Any], str, dict[str, Any], dict[str, Any]], ...] = (
    ("l1", l1, "plain", {"label": APART_FROM}, {}),
    ("huber", huber, "narrow", {"label": APART_FROM}, {"delta": 0.25}),
    ("huber", huber, "wide", {}, {"delta": 8.0}),
    ("smooth_l1", smooth_l1, "wide", {}, {"beta": 8.0}),
    ("smooth_l1", smooth_l1, "narrow", {"label": APART_FROM}, {"beta": 0.25}),
    ("smooth_l1", smooth_l1, "as-l1", {"label": APART_FROM}, {"beta": 0.0}),
    ("hinge", hinge, "within", {"x": SHARE, "label": SHARE}, {}),
    ("hinge", hinge, "beyond", {"x": APART_FROM, "label": APART_FROM}, {}),
    ("log_loss", log_loss, "plain", {"x": SHARE, "label": SHARE}, {}),
    ("log_loss", log_loss, "epsilon", {"x": SHARE, "label": SHARE}, {"epsilon": 0.5}),
    ("kl_div", kl_div, "plain", {"label": SHARE}, {}),
    ("kl_div", kl_div, "logs", {}, {"log_label": True}),
    ("margin_rank_loss", margin_rank_loss, "plain", {"x": APART_FROM, "label": SHARE}, {}),
    ("margin_rank_loss", margin_rank_loss, "margin", {"label": SHARE}, {"margin": 4.5}),
    ("rank_loss", rank_loss, "plain", {"label": SHARE}, {}),
)
PAIRS = ("margin_rank_loss", "rank_loss")


def case(
    op: str,
    expected: Callable[..., Any],
    name: str,
    ranges: dict[str, Any],
    attrs: dict[str, Any],
    shape: tuple[int, ...],
) -> Case:
    slots = ("x", "y", "label") if op in PAIRS else ("x", "label")
    inputs: dict[str, Source] = {slot: Random(shape, **ranges.get(slot, {})) for slot in slots}
    label = f"{name}-{'x'.join(map(str, shape)) or 'scalar'}"
    return Case(op, inputs, expected, attrs, label=label, magnitude=4.0)


def ends(
    op: str,
    inputs: dict[str, list[float]],
    expected: list[float],
    gradients: tuple[list[float], ...],
    label: str,
    **options: Any,
) -> Case:
    """Return a case of explicit numbers, and explicit gradients for `out_grad` 1."""
    return Case(
        op,
        {slot: Values(numbers) for slot, numbers in inputs.items()},
        lambda **_: np.array(expected),
        label=label,
        no_grad=APART,
        gradients=lambda **_: tuple(map(np.array, gradients)),
        **options,
    )


CASES = (
    *(case(*kind, shape) for kind in KINDS for shape in ((), (3, 4), *((n,) for n in LENGTHS))),
    ends(
        "l1",
        {"x": [1.0, 2.0, -INF, 0.0], "label": [1.0, 1.0, 1.0, 4.0]},
        [0.0, 1.0, INF, 4.0],
        ([0.0, 1.0, -1.0, -1.0], [0.0, -1.0, 1.0, 1.0]),
        "ends",
    ),
    ends(
        "huber",
        {"x": [1.0, INF, 1e30, 3.0], "label": [1.0, 1.0, 0.0, 1.0]},
        [0.0, INF, 2e30, 2.0],
        ([0.0, 2.0, 2.0, 2.0], [-0.0, -2.0, -2.0, -2.0]),
        "ends",
        attrs={"delta": 2.0},
    ),
    ends(
        "smooth_l1",
        {"x": [1.0, -INF, 1e30, 3.0], "label": [1.0, 1.0, 0.0, 1.0]},
        [0.0, INF, 1e30, 1.0],
        ([0.0, -1.0, 1.0, 1.0], [-0.0, 1.0, -1.0, -1.0]),
        "ends",
        attrs={"beta": 2.0},
    ),
    ends(
        "hinge",
        {"x": [1.0, 2.0, -1.0, INF], "label": [1.0, 1.0, 1.0, 1.0]},
        [0.0, 0.0, 2.0, 0.0],
        ([-1.0, 0.0, -1.0, 0.0], [-1.0, 0.0, 1.0, 0.0]),
        "ends",
    ),
    ends(
        "margin_rank_loss",
        {"x": [1.0, 2.0, 0.0], "y": [1.0, 1.0, 1.0], "label": [1.0, 1.0, 1.0]},
        [0.0, 0.0, 1.0],
        ([-1.0, 0.0, -1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
        "ends",
    ),
    ends(
        "kl_div",
        {"x": [-1.0, -INF, 0.0], "label": [0.0, 0.0, 1.0]},
        [0.0, 0.0, 0.0],
        ([0.0, 0.0, -1.0], [-INF, NAN, 1.0]),
        "ends",
    ),
    ends(
        "kl_div",
        {"x": [-1.0, -INF, 0.0], "label": [-INF, -INF, 0.0]},
        [0.0, 0.0, 0.0],
        ([0.0, 0.0, -1.0], [0.0, 0.0, 1.0]),
        "ends-of-logs",
        attrs={"log_label": True},
    ),
    ends(
        "rank_loss",
        {"x": [900.0, -900.0], "y": [0.0, 0.0], "label": [0.0, 0.0]},
        [900.0, 0.0],
        ([1.0, 0.0], [-1.0, 0.0], [-900.0, 900.0]),
        "far",
    ),
    ends(
        "log_loss",
        {"x": [0.0, 1.0], "label": [0.0, 1.0]},
        [-float(np.log1p(0.5)), -float(np.log1p(0.5))],
        ([2 / 3, -2 / 3], [float(np.log(3.0)), -float(np.log(3.0))]),
        "certain",
        attrs={"epsilon": 0.5},
    ),
)
