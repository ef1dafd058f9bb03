"""Test cases of index_add, index_copy, index_fill, index_put, masked_select and masked_scatter."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import FLOATS, INTS, Array, Case, Random, Values

WHOLE = "integers"


def index_add(x: Array, index: Array, updates: Array, axis: int = 0, alpha: float = 1.0) -> Array:
    out = np.moveaxis(np.atleast_1d(x.copy()), axis, 0)
    for i, place in enumerate(index):
        out[place] += (alpha * np.moveaxis(updates, axis, 0)[i]).astype(x.dtype)
    return np.moveaxis(out, 0, axis).reshape(x.shape)


def index_copy(x: Array, index: Array, updates: Array, axis: int = 0) -> Array:
    out = np.moveaxis(x.copy(), axis, 0)
    for i, place in enumerate(index):
        out[place] = np.moveaxis(updates, axis, 0)[i]
    return np.moveaxis(out, 0, axis)


def index_fill(x: Array, index: Array, value: float, axis: int = 0) -> Array:
    out = np.moveaxis(np.atleast_1d(x.copy()), axis, 0)
    out[index] = value
    return np.moveaxis(out, 0, axis).reshape(x.shape)


def index_put(x: Array, indices: list[Array], values: Array, accumulate: bool = False) -> Array:
    out = x.copy()
    if accumulate:
        np.add.at(out, tuple(indices), values)
    else:
        out[tuple(indices)] = values
    return out


def masked_select(x: Array, mask: Array) -> Array:
    elements, chosen = np.broadcast_arrays(x, mask)
    return elements[chosen]


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    out, rest = x.copy(), iter(source.reshape(-1))
    for at in np.ndindex(*x.shape):
        if np.broadcast_to(mask, x.shape)[at]:
            out[at] = next(rest)
    return out


FUNCTIONS = {"index_add": index_add, "index_copy": index_copy, "index_fill": index_fill}


def along(op: str, label: str, index: list[int], width: int = 2, **attrs: Any) -> Case:
    shape, axis = (3, 4, width), attrs.get("axis", 0)
    inputs: dict[str, Any] = {"x": Random(shape), "index": Values(index, "int64")}
    if op != "index_fill":
        inputs["updates"] = Random(
            tuple(len(index) if i == axis % 3 else n for i, n in enumerate(shape))
        )
    return Case(op, inputs, FUNCTIONS[op], attrs, label=label, dtypes=FLOATS, magnitude=8.0)


def put(
    label: str, indices: list[Any], values: tuple[int, ...], width: int = 2, **attrs: Any
) -> Case:
    inputs = {
        "x": Random((3, 4, width)),
        "indices": [Values(index, "int64") for index in indices],
        "values": Random(values),
    }
    return Case("index_put", inputs, index_put, attrs, label=label, magnitude=8.0)


def masked(label: str, shape: tuple[int, ...], mask: Any, count: int) -> tuple[Case, Case]:
    chosen = Values(mask, "bool")
    return (
        Case(
            "masked_select",
            {"x": Random(shape), "mask": chosen},
            masked_select,
            label=label,
            ulps=0,
        ),
        Case(
            "masked_scatter",
            {"x": Random(shape), "mask": chosen, "source": Random((count,))},
            masked_scatter,
            label=label,
            ulps=0,
        ),
    )


CASES = (
    along("index_add", "repeated", [0, 2, 0, -1]),
    along("index_add", "inner", [3, 1, 3], axis=1, alpha=-0.5),
    *(along(op, "empty", [1, 0], width=0) for op in ("index_add", "index_copy")),
    along("index_fill", "empty", [1], width=0, value=1.0),
    along("index_copy", "last", [1, 0], axis=-1),
    along("index_copy", "rows", [2, 0], width=1),
    along("index_fill", "inner", [0, -1], axis=1, value=2.5),
    along("index_fill", "nothing", [], width=1, value=1.0),
    Case(
        "index_add",
        {"x": Random((3, 2)), "index": Values([1, 1], "int32"), "updates": Random((2, 2))},
        index_add,
        {"alpha": 2.0},
        dtypes=INTS,
        label="whole",
        no_grad=WHOLE,
    ),
    Case(
        "index_add",
        {"x": Random(()), "index": Values([0, 0], "int64"), "updates": Random((2,))},
        index_add,
        label="0-d",
        magnitude=8.0,
    ),
    Case(
        "index_fill",
        {"x": Random(()), "index": Values([-1], "int64")},
        index_fill,
        {"value": 2.5, "axis": -1},
        label="0-d",
    ),
    put("empty", [[0, 2]], (2, 4, 0), width=0),
    put("places", [[0, 2], [1, 3]], (2, 2)),
    put("broadcast", [[[0], [2]], [1, 3, 1]], (2,), accumulate=True),
    put("rows", [[2, 0, 2]], (3, 4, 1), width=1, accumulate=True),
    *masked("some", (2, 3), [[True, False, True], [False, True, True]], 4),
    *masked("broadcast", (2, 3), [True, False, True], 5),
    *masked("empty", (0, 3), [True, False, True], 1),
    *masked("none", (2, 2), [[False, False], [False, False]], 0),
)
