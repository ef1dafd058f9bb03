"""Test cases of mse."""

from __future__ import annotations

from case import LENGTHS, Array, Case, Random, Values


def mse(x: Array, label: Array) -> Array:
    return (x - label) * (x - label)


CASES = (
    *(Case("mse", {"x": Random((n,)), "label": Random((n,))}, mse, label=str(n)) for n in LENGTHS),
    Case("mse", {"x": Random((3, 4)), "label": Random((3, 4))}, mse, label="matrix"),
    Case("mse", {"x": Random(()), "label": Random(())}, mse, label="scalar"),
    Case(
        "mse",
        {"x": Values([float("inf"), 1.0, 1.0]), "label": Values([1.0, float("nan"), 1.0])},
        mse,
        label="special",
        no_grad="infinite or undefined there",
    ),
)
