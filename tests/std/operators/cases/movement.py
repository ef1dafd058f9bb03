"""Test cases of operators that move elements or change shapes; Python lists are the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from case import FLOATS, INTS, LENGTHS, Array, Case, Random

EVERY = (*FLOATS, *INTS, "bool")


def moved(
    op: str, expected: Callable[..., Any], label: str, shape: Sequence[int], **options: Any
) -> Case:
    """Return one case of an operator with the single input x."""
    return Case(op, {"x": Random(tuple(shape))}, expected, label=label, **options)


def typed(
    op: str,
    expected: Callable[..., Any],
    shape: Sequence[int],
    label: str = "dtypes",
    **options: Any,
) -> Case:
    """Return the case in every dtype."""
    common = {"dtypes": EVERY, "no_grad": "covered by the cases in floats only", **options}
    return moved(op, expected, label, shape, **common)


def from_positions(shape: Sequence[int], find: Callable[..., Any]) -> Array:
    """Return the array of `shape` whose element at (i, j, ...) is ``find(i, j, ...)``."""
    numbers = [find(*place) for place in np.ndindex(*shape)]
    return np.array(numbers).reshape(shape)


def to(shape: Sequence[int]) -> Callable[..., Array]:
    """Return a reference that reshapes its input to `shape`, in row-major order."""

    def reshape(x: Array, *_: Array, **attrs: Any) -> Array:
        numbers = iter(x.ravel().tolist())
        return from_positions(shape, lambda *_: next(numbers))

    return reshape


def transpose(x: Array, axes: Sequence[int] = ()) -> Array:
    order = [a % x.ndim for a in axes] or list(range(x.ndim))[::-1]

    def find(*place: int) -> Any:
        source = [0] * x.ndim
        for i, axis in enumerate(order):
            source[axis] = place[i]
        return x[tuple(source)]

    return from_positions([x.shape[a] for a in order], find)


def concat(x: list[Array], axis: int = 0) -> Array:
    axis %= x[0].ndim
    shape = list(x[0].shape)
    shape[axis] = sum(part.shape[axis] for part in x)
    out = np.zeros(shape, x[0].dtype)
    begin = 0
    for part in x:
        for place in np.ndindex(*part.shape):
            out[(*place[:axis], place[axis] + begin, *place[axis + 1 :])] = part[place]
        begin += part.shape[axis]
    return out


def split(lengths: Sequence[int]) -> Callable[..., tuple[list[Array]]]:
    def cut(x: Array, axis: int = 0, **_: Any) -> tuple[list[Array]]:
        parts, begin = [], 0
        for length in lengths:
            parts.append(np.moveaxis(np.moveaxis(x, axis, 0)[begin : begin + length], 0, axis))
            begin += length
        return (parts,)

    return cut


def cut(x: Array, axes: Any, starts: Any, ends: Any, steps: Any = ()) -> Array:
    places = [list(range(n)) for n in x.shape]
    for i, axis in enumerate(axes):
        step = steps[i] if steps else 1
        places[axis] = places[axis][starts[i] : ends[i] : step]
    shape = [len(p) for p in places]
    return from_positions(
        shape, lambda *at: x[tuple(p[i] for p, i in zip(places, at, strict=True))]
    )


def pad(x: Array, paddings: Sequence[int], mode: str = "constant", value: float = 0.0) -> Array:
    def source(i: int, n: int) -> int:
        if mode == "edge":
            return min(max(i, 0), n - 1)
        if mode == "reflect" and n > 1:
            return (n - 1) - abs((n - 1) - abs(i) % (2 * n - 2))
        if mode == "wrap":
            return i % n
        return i

    def find(*place: int) -> Any:
        at = tuple(source(i - paddings[2 * a], x.shape[a]) for a, i in enumerate(place))
        inside = all(0 <= i < n for i, n in zip(at, x.shape, strict=True))
        return x[at] if inside else value

    shape = [n + paddings[2 * a] + paddings[2 * a + 1] for a, n in enumerate(x.shape)]
    return from_positions(shape, find)


def expand(shape: Sequence[int]) -> Callable[..., Array]:
    def repeat(x: Array, *_: Array, **attrs: Any) -> Array:
        added = len(shape) - x.ndim

        def find(*place: int) -> Any:
            return x[tuple(i if n > 1 else 0 for i, n in zip(place[added:], x.shape, strict=True))]

        return from_positions(shape, find)

    return repeat


def reshaped(label: str, x: Sequence[int], shape: Sequence[int], out: Sequence[int]) -> Case:
    return moved("reshape", to(out), label, x, attrs={"shape": list(shape)})


def joined(label: str, shapes: Sequence[tuple[int, ...]], axis: int = 0) -> Case:
    inputs = {"x": [Random(shape) for shape in shapes]}
    return Case("concat", inputs, concat, {"axis": axis}, label=label)


def parted(label: str, x: Sequence[int], parts: Sequence[int], **attrs: Any) -> Case:
    count = {"out": len(parts)}
    return moved("split", split(parts), label, x, attrs=attrs, outputs=count)


def sliced(label: str, x: Sequence[int], *lists: Sequence[int]) -> Case:
    names = ("axes", "starts", "ends", "steps")
    attrs = {name: list(numbers) for name, numbers in zip(names, lists, strict=False)}
    return moved("slice", cut, label, x, attrs=attrs)


def padded(label: str, x: Sequence[int], paddings: Sequence[int], **attrs: Any) -> Case:
    return moved("pad", pad, label, x, attrs={"paddings": list(paddings), **attrs})


def expanded(label: str, x: Sequence[int], shape: Sequence[int], out: Sequence[int]) -> Case:
    return moved("expand", expand(out), label, x, attrs={"shape": list(shape)})


FAR = 2**63 - 1
BACKWARDS = {"axes": [1], "starts": [-1], "ends": [-FAR], "steps": [-1]}

CASES = (
    reshaped("flat", (3, 4), [12], [12]),
    reshaped("computed", (3, 4), [2, -1], [2, 6]),
    reshaped("copied", (3, 4, 5), [0, -1], [3, 20]),
    reshaped("copied-empty", (0, 4, 5), [0, -1], [0, 20]),
    reshaped("copied-last", (3, 4, 5), [4, 3, 0], [4, 3, 5]),
    reshaped("batch", (6, 4), [-1, 8], [3, 8]),
    reshaped("scalar", (1, 1), [], []),
    reshaped("from-scalar", (), [1, -1], [1, 1]),
    reshaped("empty", (2, 0, 3), [3, -1], [3, 0]),
    typed("reshape", to((9, 3)), (3, 9), attrs={"shape": [9, 3]}),
    moved("flatten", to((2, 12)), "plain", (2, 3, 4)),
    moved("flatten", to((24,)), "all", (2, 3, 4), attrs={"start_axis": 0}),
    moved("flatten", to((2, 12, 5)), "middle", (2, 3, 4, 5), attrs={"stop_axis": 2}),
    moved("flatten", to((2, 12)), "back", (2, 3, 4), attrs={"start_axis": -2, "stop_axis": -1}),
    moved("flatten", to((2, 3)), "one-axis", (2, 3)),
    moved("flatten", to((3, 1)), "vector", (3,)),
    moved("flatten", to((1,)), "scalar", (), attrs={"start_axis": 0}),
    moved("flatten", to((1,)), "scalar-plain", ()),
    moved("flatten", to((0, 12)), "batch-0", (0, 3, 4)),
    moved("flatten", to((2, 0)), "empty", (2, 0, 4)),
    typed("flatten", to((3, 18)), (3, 2, 9)),
    moved("squeeze", to((3, 4)), "all", (1, 3, 1, 4), known_shapes="only dims of 1 go"),
    moved("squeeze", to((3, 1, 4)), "first", (1, 3, 1, 4), attrs={"axis": [0]}),
    moved("squeeze", to((1, 3, 4)), "back", (1, 3, 1, 4), attrs={"axis": [-2]}),
    moved("squeeze", to((0,)), "empty", (0, 1), attrs={"axis": [1]}),
    moved("squeeze", to(()), "scalar", (1,), attrs={"axis": [0]}),
    moved("squeeze", to(()), "of-scalar", (), attrs={"axis": [-1]}),
    typed("squeeze", to((3,)), (3, 1), attrs={"axis": [1]}),
    moved("unsqueeze", to((1, 3, 4)), "first", (3, 4), attrs={"axis": [0]}),
    moved("unsqueeze", to((3, 1, 4, 1)), "two", (3, 4), attrs={"axis": [-1, 1]}),
    moved("unsqueeze", to((1,)), "scalar", (), attrs={"axis": [0]}),
    moved("unsqueeze", to((0, 1)), "empty", (0,), attrs={"axis": [-1]}),
    moved("unsqueeze", to((3, 4)), "none", (3, 4), attrs={"axis": []}),
    typed("unsqueeze", to((1, 3)), (3,), attrs={"axis": [0]}),
    moved("transpose", transpose, "reversed", (2, 3, 4)),
    moved("transpose", transpose, "turned", (2, 3, 4), attrs={"axes": [1, 2, 0]}),
    moved("transpose", transpose, "negative", (2, 3, 4), attrs={"axes": [0, -1, -2]}),
    moved("transpose", transpose, "scalar", ()),
    moved("transpose", transpose, "empty", (0, 3)),
    moved("transpose", transpose, "wide", (33, 17)),
    typed("transpose", transpose, (3, 7)),
    joined("rows", [(2, 3), (1, 3), (4, 3)]),
    joined("columns", [(2, 3), (2, 1)], 1),
    joined("negative", [(2, 3, 2), (2, 1, 2)], -2),
    joined("one", [(2, 3)]),
    joined("some-empty", [(0, 3), (2, 3), (0, 3)]),
    joined("empty", [(0, 3), (0, 3)]),
    Case(
        "concat",
        {"x": [Random((9,)), Random((7,))]},
        concat,
        dtypes=EVERY,
        label="dtypes",
        no_grad="covered by the cases in floats only",
    ),
    parted("equal", (6, 2), (2, 2, 2)),
    parted("num", (6, 2), (3, 3), num=2),
    parted("sections", (6, 2), (1, 0, 5), sections=[1, 0, 5]),
    parted("last", (2, 6), (4, 2), axis=-1, sections=[4, 2]),
    parted("one", (2, 6), (2,)),
    parted("empty", (0, 6), (0, 0)),
    typed("split", split((3, 6)), (9, 2), attrs={"sections": [3, 6]}, outputs={"out": 2}),
    sliced("rows", (5, 3), [0], [1], [4]),
    sliced("both", (5, 6), [0, 1], [1, 2], [4, 5]),
    sliced("negative", (5, 6), [-1], [-4], [-1]),
    sliced("steps", (9, 3), [0], [1], [8], [3]),
    sliced("backwards", (7, 3), [0], [-1], [-FAR], [-2]),
    sliced("clipped", (5, 3), [0, 1], [-100, 1], [FAR, 100]),
    *(sliced(f"reversed-{n}", (2, n), [1], [-1], [-FAR], [-1]) for n in LENGTHS),
    typed("slice", cut, (3, 40), "reversed", attrs=BACKWARDS),
    typed("slice", cut, (12, 3), "short-rows", attrs={"axes": [1], "starts": [1], "ends": [3]}),
    typed("slice", cut, (9, 5), "four-of-five", attrs={"axes": [1], "starts": [0], "ends": [4]}),
    sliced("short-rows-in-all", (4, 3, 3), [2], [1], [3]),
    sliced("nothing", (5, 3), [0], [3], [3]),
    sliced("no-axes", (5, 3), [], [], []),
    sliced("empty", (0, 3), [0], [0], [2]),
    typed("slice", cut, (9, 3), attrs={"axes": [0], "starts": [1], "ends": [-1], "steps": [2]}),
    padded("constant", (3, 4), [1, 2, 0, 3], value=0.5),
    padded("zero", (3, 4), [0, 0, 1, 1]),
    padded("none", (3, 4), [0, 0, 0, 0]),
    padded("reflect", (3, 4), [2, 1, 3, 2], mode="reflect"),
    padded("reflect-one", (3, 1), [1, 0, 0, 0], mode="reflect"),
    padded("edge", (3, 4), [1, 2, 2, 0], mode="edge"),
    padded("edge-one", (1, 2), [2, 3, 0, 0], mode="edge"),
    padded("edge-cropped", (3, 4), [-1, 2, 3, -2], mode="edge"),
    padded("edge-of-nothing", (3, 4), [-3, 2, 0, 0], mode="edge"),
    padded("reflect-cropped", (3, 4), [2, -1, -2, 3], mode="reflect"),
    padded("wrap", (3, 4), [2, 1, 0, 3], mode="wrap"),
    padded("wrap-repeated", (2, 3), [5, 3, 4, 7], mode="wrap"),
    padded("wrap-cropped", (3, 4), [-1, 2, 2, -3], mode="wrap"),
    padded("empty", (0, 2), [1, 1, 0, 0]),
    padded("cropped", (5, 6), [-1, -2, 2, -3], value=0.5),
    padded("cropped-middle", (4, 5, 3), [0, 0, -1, -3, 1, 1]),
    padded("cropped-to-nothing", (3, 4), [-1, -2, 0, 0]),
    padded("cropped-then-grown", (3, 4), [-3, 2, 3, -4], value=2.0),
    padded("scalar", (), []),
    typed("pad", pad, (7,), attrs={"paddings": [1, 2], "value": 1.0}),
    expanded("rows", (4,), [3, 4], [3, 4]),
    expanded("kept", (3, 1), [-1, 4], [3, 4]),
    expanded("both", (1, 3, 1), [2, 2, -1, 5], [2, 2, 3, 5]),
    expanded("scalar", (), [2, 3], [2, 3]),
    expanded("to-empty", (1, 3), [0, 3], [0, 3]),
    expanded("empty", (0, 3), [2, -1, 3], [2, 0, 3]),
    expanded("same", (2, 3), [2, 3], [2, 3]),
    typed("expand", expand((2, 9)), (9,), attrs={"shape": [2, 9]}),
)


def sum_back(shape: Sequence[int]) -> Callable[..., Array]:
    """Return a reference that sums over the axes along which `shape` was broadcast."""

    def add_up(x: Array, like: Array) -> Array:
        out = np.zeros(shape, x.dtype)
        added = x.ndim - len(shape)
        for place in np.ndindex(*x.shape):
            out[tuple(i if n > 1 else 0 for i, n in zip(place[added:], shape, strict=True))] += x[
                place
            ]
        return out

    return add_up


def like(op: str, expected: Any, label: str, x: Any, shape: Any, **options: Any) -> Case:
    inputs = {"x": Random(x), "like": Random(shape)}
    return Case(op, inputs, expected(shape), label=label, **options)


CASES += (
    *(
        like("sum_like", sum_back, label, x, shape, terms=math.prod(x), magnitude=20.0)
        for label, x, shape in (
            ("same", (3, 4), (3, 4)),
            ("row", (3, 4), (4,)),
            ("column", (3, 4), (3, 1)),
            ("scalar", (3, 4), ()),
            ("ones", (2, 3, 4), (1, 1)),
            ("empty", (0, 4), (1, 4)),
            ("to-empty", (3, 0), (0,)),
        )
    ),
    like("sum_like", sum_back, "halves", (9, 33), (33,), dtypes=FLOATS, terms=9, magnitude=20.0),
    *(
        like("expand_like", expand, label, x, shape)
        for label, x, shape in (
            ("same", (3, 4), (3, 4)),
            ("row", (4,), (3, 4)),
            ("column", (3, 1), (3, 4)),
            ("scalar", (), (2, 3)),
            ("to-empty", (1, 4), (0, 4)),
            ("empty", (0, 4), (2, 0, 4)),
        )
    ),
    like("expand_like", expand, "dtypes", (9,), (2, 9), dtypes=FLOATS),
    like("reshape_like", to, "matrix", (3, 4), (2, 6)),
    like("reshape_like", to, "scalar", (1, 1), ()),
    like("reshape_like", to, "empty", (0, 4), (2, 0)),
    like("reshape_like", to, "dtypes", (9, 2), (2, 9), dtypes=EVERY, no_grad="covered above"),
)
