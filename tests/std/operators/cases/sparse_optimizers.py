"""Test cases of the optimizers that update only some rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values
from cases.optimizers import RATE, STATES, adagrad, adam, momentum, sgd


def of_rows(dense: Callable[..., Any]) -> Callable[..., tuple[Array, ...]]:
    """Return the update of a table by an optimizer, restricted to the looked-up rows."""

    def update(
        param: Array,
        rows: Sequence[Array],
        values: Sequence[Array],
        learning_rate: Array,
        padding_indices: Sequence[int] = (),
        **others: Any,
    ) -> tuple[Array, ...]:
        grad, is_named = np.zeros_like(param), np.zeros((len(param), 1), bool)
        for i, (index, slices) in enumerate(zip(rows, values, strict=True)):
            for place in np.ndindex(index.shape):
                if not padding_indices or index[place] != padding_indices[i]:
                    grad[index[place]] += slices[place]
                    is_named[index[place]] = True
        after = dense(param=param, grad=grad, learning_rate=learning_rate, **others)
        after = after if isinstance(after, tuple) else (after,)
        before = [param, *(other for other in others.values() if isinstance(other, np.ndarray))]
        pairs = zip(before, after, strict=True)
        return tuple(np.where(is_named, b, a) if a.ndim == 2 else b for a, b in pairs)

    return update


def case(
    op: str,
    expected: Callable[..., Any],
    table: tuple[int, int],
    lookups: Sequence[Values],
    label: str,
    **attrs: Any,
) -> Case:
    shapes = [lookup.make("int64", 0).shape for lookup in lookups]
    inputs: dict[str, Source | Sequence[Source]] = {
        "param": Random(table),
        "rows": lookups,
        "values": [Random((*shape, table[1])) for shape in shapes],
        "learning_rate": RATE,
    }
    for slot, state in STATES.get(op.removeprefix("sparse_"), {}).items():
        inputs[slot] = Random(table, *state) if isinstance(state, tuple) else state
    return Case(op, inputs, of_rows(expected), attrs, label=label, magnitude=4.0, ulps=8, terms=3)


def ids(numbers: Any, dtype: str = "int64") -> Values:
    return Values(numbers, dtype)


VARIANTS: tuple[tuple[str, Callable[..., Any], str, dict[str, Any]], ...] = (
    ("sparse_sgd", sgd, "", {}),
    ("sparse_momentum", momentum, "", {"mu": 0.9}),
    ("sparse_momentum", momentum, "nesterov-", {"mu": 0.9, "nesterov": True}),
    ("sparse_adagrad", adagrad, "", {}),
    ("sparse_adagrad", adagrad, "epsilon-", {"epsilon": 0.5}),
    ("sparse_adam", adam, "", {}),
    ("sparse_adam", adam, "betas-", {"beta1": 0.5, "beta2": 0.5, "epsilon": 0.1}),
)

CASES = tuple(
    case(op, expected, table, lookups, f"{name}{label}", **attrs, **padding)
    for op, expected, name, attrs in VARIANTS
    for table, lookups, label, padding in (
        ((6, 3), [ids([4, 0, 4, 1, 4, 0])], "repeated", {}),
        ((5, 3), [ids([[0, 1, 2], [2, 2, 4]], "int32")], "matrix", {}),
        ((5, 3), [ids(3)], "scalar", {}),
        ((5, 3), [ids([])], "none", {}),
        ((0, 3), [ids([])], "no-table", {}),
        ((4, 3), [ids([3, 1]), ids([[1], [0]], "int32"), ids([])], "three-lookups", {}),
        ((5, 3), [ids([2, 0, 2, 4])], "padding", {"padding_indices": [2]}),
        (
            (5, 3),
            [ids([2, 0, 2, 4]), ids([0, 0, 2]), ids([1])],
            "paddings",
            {"padding_indices": [2, 0, -1]},
        ),
        *(((4, n), [ids([3, 1, 3])], f"size-{n}", {}) for n in LENGTHS),
    )
)
