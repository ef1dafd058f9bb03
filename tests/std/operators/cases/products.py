"""Test cases of gemm, bilinear and einsum."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, WIDE, Array, Case, Random, Source, Values


def gemm(
    a: Array,
    b: Array,
    c: Array | float = 0.0,
    alpha: float = 1.0,
    beta: float = 1.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Array:
    return alpha * (a.T if transpose_a else a) @ (b.T if transpose_b else b) + beta * c


def general(label: str, shapes: list[tuple[int, ...]], **attrs: Any) -> Case:
    inputs = {slot: Random(shape) for slot, shape in zip("abc", shapes, strict=False)}
    return Case("gemm", inputs, gemm, attrs, label=label, dtypes=FLOATS, terms=9, magnitude=12.0)


def bilinear(x: Array, y: Array, weight: Array, bias: Array | float = 0.0) -> Array:
    rows = [[xi @ w @ yi for w in weight] for xi, yi in zip(x, y, strict=True)]
    return np.array(rows).reshape(len(x), len(weight)) + bias


def layer(label: str, rows: int, n: int, m: int, outputs: int, bias: bool = True) -> Case:
    inputs = {"x": Random((rows, n)), "y": Random((rows, m)), "weight": Random((outputs, n, m))}
    if bias:
        inputs["bias"] = Random((outputs,))
    return Case("bilinear", inputs, bilinear, label=label, dtypes=FLOATS, terms=60, magnitude=20.0)


def einsum(x: list[Array], equation: str) -> Array:
    return np.einsum(equation, *x)


def summed(equation: str, *shapes: tuple[int, ...], **options: Any) -> Case:
    sources: list[Source] = [Random(shape) for shape in shapes]
    label = f"{equation.replace(' ', '')} {'x'.join(map(str, shapes))}"
    options = {"terms": 60, "magnitude": 12.0, **options}
    return Case("einsum", {"x": sources}, einsum, {"equation": equation}, label=label, **options)


EINSUM = (
    *(summed("i,i->", (n,), (n,)) for n in LENGTHS),
    summed("ij,jk->ik", (3, 4), (4, 5), dtypes=FLOATS),
    summed("ij,jk", (3, 4), (4, 5), dtypes=INTS, no_grad="integers"),
    summed("ij->", (3, 4), dtypes=("int32", "uint64"), no_grad="integers"),
    summed("ba", (3, 4)),
    summed("ij->ji", (3, 4)),
    summed("ij->j", (3, 4)),
    summed("ii->i", (4, 4)),
    summed("ii", (4, 4)),
    summed("iij,jk->ki", (3, 3, 4), (4, 2)),
    summed("i,j->ij", (3,), (4,)),
    summed("ij,ij->ij", (3, 4), (3, 4)),
    summed("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    summed("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    summed("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    summed("a...b->b...a", (2, 3, 4)),
    summed("...i,kij,...j->...k", (2, 5, 3), (6, 3, 4), (2, 5, 4)),
    summed("abc,cd,de,bf->aef", (2, 3, 4), (4, 5), (5, 2), (3, 3)),
    summed(" i , ij ->j", (1,), (1, 3)),
    summed(",i->i", (), (3,)),
    summed("->", ()),
    summed("ij,jk->ik", (3, 0), (0, 2)),
    summed("ij,jk->ik", (0, 3), (3, 2)),
)

CASES = (
    general("plain", [(3, 4), (4, 5)]),
    general("row", [(3, 4), (4, 5), (5,)], alpha=0.5, beta=-2.0),
    general("column", [(3, 4), (4, 5), (3, 1)], alpha=2.0),
    general("scalar", [(3, 4), (4, 5), ()], beta=3.0),
    general("turned", [(4, 3), (5, 4), (3, 5)], transpose_a=True, transpose_b=True, alpha=0.25),
    general("empty", [(0, 4), (4, 5), (5,)]),
    general("no-inner", [(3, 0), (0, 5), (3, 5)]),
    layer("plain", 3, 4, 5, 2),
    layer("no-bias", 3, 4, 5, 2, bias=False),
    layer("empty", 0, 4, 5, 2),
    layer("one", 1, 1, 1, 1),
    *EINSUM,
    Case(
        "einsum",
        {"x": [Values([np.inf, 1.0]), Values([1.0, np.nan])]},
        einsum,
        {"equation": "i,i->i"},
        dtypes=WIDE,
        label="special",
        no_grad="infinite there",
    ),
)
