"""Test cases of operators that take `lengths` of padded sequences."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, Array, Case, Random, Values

EVERY = (*FLOATS, *INTS, "bool")


def mask(lengths: Array, like: Array | None = None, max_length: int | None = None) -> Array:
    steps = max_length if like is None else like.shape[1]
    rows = [[s < length for s in range(steps or 0)] for length in lengths]
    return np.array(rows, bool).reshape(len(lengths), steps or 0)


def reverse(x: Array, lengths: Array) -> Array:
    out = x.copy()
    for i, length in enumerate(lengths):
        for s in range(length):
            out[i, s] = x[i, length - 1 - s]
    return out


def pack(x: Array, lengths: Array) -> Array:
    rows = [x[i, :length] for i, length in enumerate(lengths)]
    return np.concatenate([x[:0, 0] if x.shape[1] else x.reshape((0, *x.shape[2:])), *rows])


def unpack(x: Array, lengths: Array, max_length: int) -> Array:
    out = np.zeros((len(lengths), max_length, *x.shape[1:]), x.dtype)
    for i, (length, end) in enumerate(zip(lengths, np.cumsum(lengths), strict=True)):
        out[i, :length] = x[end - length : end]
    return out


POOLS = {
    "sum": lambda rows: rows.sum(0),
    "mean": lambda rows: rows.mean(0),
    "sqrt": lambda rows: rows.sum(0) / np.sqrt(len(rows)),
    "max": lambda rows: rows.max(0),
    "first": lambda rows: rows[0],
    "last": lambda rows: rows[-1],
}


def pool(x: Array, lengths: Array, kind: str) -> Array:
    rows = [POOLS[kind](x[i, :n]) if n else x[i, :0].sum(0) for i, n in enumerate(lengths)]
    return np.array(rows).reshape(x.shape[:1] + x.shape[2:])


def softmax(x: Array, lengths: Array) -> Array:
    out = np.zeros_like(x)
    for i, length in enumerate(lengths):
        powers = np.exp(x[i, :length] - x[i, :length].max(0, initial=-np.inf))
        out[i, :length] = powers / powers.sum(0)
    return out


def conv(
    x: Array,
    lengths: Array,
    weight: Array,
    bias: Array | float = 0.0,
    *,
    context_length: int,
    context_start: int | None = None,
) -> Array:
    first = -(context_length // 2) if context_start is None else context_start
    n, steps, width = x.shape
    out = np.zeros((n, steps, weight.shape[1]))
    for i, length in enumerate(lengths):
        for s in range(length):
            for k in range(context_length):
                if 0 <= s + first + k < length:
                    out[i, s] += x[i, s + first + k] @ weight[k * width : (k + 1) * width]
            out[i, s] += bias
    return out


def padded(
    op: str, expected: Any, label: str, shape: tuple[int, ...], lengths: list[int], **options: Any
) -> Case:
    ids = Values(lengths, options.pop("kind", "int64"))
    x = Random(shape, distinct=True)
    return Case(op, {"x": x, "lengths": ids}, expected, label=label, **options)


def masked(label: str, lengths: list[int], kind: str, **options: Any) -> Case:
    inputs: dict[str, Any] = {"lengths": Values(lengths, kind), **options.pop("inputs", {})}
    return Case(
        "sequence_mask", inputs, mask, label=label, dtypes=("float32",), no_grad="ids", **options
    )


def unpacked(
    label: str, shape: tuple[int, ...], lengths: list[int], max_length: int, **options: Any
) -> Case:
    inputs = {"x": Random(shape), "lengths": Values(lengths, "int32")}
    attrs = {"max_length": max_length}
    return Case("sequence_unpack", inputs, unpack, attrs, label=label, ulps=0, **options)


def convolved(
    label: str, length: int, start: int | None, m: int, n: int = 3, **options: Any
) -> Case:
    inputs: dict[str, Any] = {
        "x": Random((n, 5, 4)),
        "lengths": Values([5, 0, 3][:n], "int64"),
        "weight": Random((length * 4, m)),
    }
    if options.pop("bias", False):
        inputs["bias"] = Random((m,))
    attrs: dict[str, Any] = {"context_length": length}
    if start is not None:
        attrs["context_start"] = start
    return Case(
        "sequence_conv",
        inputs,
        conv,
        attrs,
        label=label,
        terms=4 * length,
        magnitude=8.0,
        **options,
    )


WHOLE = {"dtypes": EVERY, "no_grad": "integers among them"}

CASES = (
    *(masked(f"steps-{n}", [0, n, n // 2], "int32", attrs={"max_length": n}) for n in LENGTHS),
    masked("empty", [], "int64", attrs={"max_length": 3}),
    masked("like", [2, 0, 4], "int64", inputs={"like": Random((3, 4, 2))}),
    *(
        padded(op, expected, label, shape, lengths, ulps=0)
        for op, expected in (("sequence_reverse", reverse), ("sequence_pack", pack))
        for label, shape, lengths in (
            ("matrix", (3, 5), [5, 0, 3]),
            ("deep", (2, 4, 3, 2), [3, 4]),
            ("none", (2, 3, 2), [0, 0]),
            ("empty", (0, 3, 2), []),
            ("stepless", (2, 0, 2), [0, 0]),
            ("featureless", (2, 3, 0), [1, 3]),
            *((f"steps-{n}", (2, n), [n, n // 2]) for n in LENGTHS),
            *((f"width-{n}", (2, 3, n), [2, 3]) for n in LENGTHS),
        )
    ),
    padded("sequence_reverse", reverse, "dtypes", (2, 4, 3), [3, 2], kind="int32", **WHOLE),
    padded("sequence_reverse", reverse, "dtypes-lines", (2, 19), [17, 2], **WHOLE),
    padded("sequence_pack", pack, "dtypes", (2, 4, 3), [3, 2], kind="int32", **WHOLE),
    unpacked("matrix", (5, 2), [3, 0, 2], 3),
    unpacked("lines", (5,), [3, 2], 4),
    unpacked("none", (0, 2), [0, 0], 4),
    unpacked("empty", (0, 2), [], 4),
    *(unpacked(f"width-{n}", (4, n), [1, 3], 3) for n in LENGTHS),
    unpacked("dtypes", (4, 3), [1, 3], 3, **WHOLE),
    *(
        padded(
            "sequence_pool", pool, f"{kind}-{label}", shape, lengths, attrs={"kind": kind}, terms=40
        )
        for kind in POOLS
        for label, shape, lengths in (
            ("matrix", (3, 5), [5, 0, 3]),
            ("line", (2, 77), [76, 33]),
            ("deep", (2, 4, 3, 2), [3, 4]),
            ("blocks", (1, 3, 1025), [2]),
            ("many", (2, 11, 3), [11, 9]),
            ("empty", (0, 3, 2), []),
            ("stepless", (2, 0, 2), [0, 0]),
            ("featureless", (2, 3, 0), [1, 3]),
        )
    ),
    *(
        padded("sequence_pool", pool, f"{kind}-width-{n}", (2, 3, n), [2, 3], attrs={"kind": kind})
        for kind in ("sum", "max")
        for n in LENGTHS
    ),
    *(
        padded(
            "sequence_pool",
            pool,
            f"{kind}-half",
            (2, 4, 3),
            [3, 4],
            attrs={"kind": kind},
            dtypes=("float16",),
            terms=4,
            no_grad="the gradient in wider dtypes",
        )
        for kind in POOLS
    ),
    Case(
        "sequence_pool",
        {
            "x": Values([[1.0, np.nan, 5.0], [np.inf, 2.0, np.nan], [3.0, 3.0, 9.0]]),
            "lengths": Values([3, 2, 2], "int64"),
        },
        functools.partial(pool, kind="max"),
        attrs={"kind": "max"},
        label="max-special",
        no_grad="differences do not reach infinities",
        gradients=lambda **_: np.array([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]], float),
    ),
    *(
        padded("sequence_softmax", softmax, label, shape, lengths, terms=8)
        for label, shape, lengths in (
            ("matrix", (3, 5), [5, 0, 3]),
            ("deep", (2, 4, 3, 2), [3, 4]),
            ("empty", (0, 3, 2), []),
            ("stepless", (2, 0, 2), [0, 0]),
            ("featureless", (2, 3, 0), [1, 3]),
            *((f"steps-{n}", (2, n), [n, n // 2]) for n in LENGTHS if n),
        )
    ),
    Case(
        "sequence_softmax",
        {
            "x": Values([[0.0, -np.inf, np.nan], [3.0, 3.0, np.inf]]),
            "lengths": Values([2, 2], "int64"),
        },
        softmax,
        label="special",
        no_grad="differences do not reach infinities",
    ),
    convolved("middle", 3, None, 2),
    convolved("one", 1, None, 3, bias=True),
    convolved("even", 4, None, 2, bias=True),
    convolved("behind", 2, 1, 2),
    convolved("empty", 3, None, 2, n=0),
    convolved("single", 3, None, 2, n=1),
    convolved("before", 2, -3, 2, bias=True),
)
