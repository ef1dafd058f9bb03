"""Inputs of operators that move elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opwright_std.samples.drawn import Drawn, proposed

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


_NOT_READ = "elements without an index, or replaced by an update, are not read"


def _shape(draw: Draw) -> tuple[int, ...]:
    return (draw.other_length(), draw.length, draw.other_length())[: int(draw.rng.integers(2, 4))]


def _kind(draw: Draw) -> str:
    return str(draw.choice(["int32", "int64"]))


def take_along_axis(draw: Draw) -> Drawn:
    """Draw indices along one axis, with the other axes as in x."""
    shape = list(_shape(draw))
    axis = int(draw.rng.integers(-len(shape), len(shape)))
    n = shape[axis]
    x = draw.floats(shape)
    shape[axis] = draw.other_length() if n else 0
    draw.refused["index"] = (-n - 1, n)
    draw.drops_nan = _NOT_READ
    return {"x": x, "index": draw.integers(shape, -n, n, _kind(draw))}, {"axis": axis}


def gather_nd(draw: Draw) -> Drawn:
    """Draw index pairs for the first two axes."""
    shape = _shape(draw)
    least = min(shape[:2])
    count = draw.other_length() if least else 0
    draw.refused["index"] = (-max(shape[:2]) - 1, max(shape[:2]))
    draw.drops_nan = _NOT_READ
    index = draw.integers((count, 2), -least, least, _kind(draw))
    return {"x": draw.floats(shape), "index": index}, {}


def scatter(draw: Draw) -> Drawn:
    """Draw indices along one axis, and an update for each."""
    drawn = take_along_axis(draw)
    if drawn is None:
        return None
    inputs, attrs = drawn
    updates = draw.floats(inputs["index"].shape)
    return {**inputs, "updates": updates}, {**attrs, **_reduction(draw)}


def scatter_nd(draw: Draw) -> Drawn:
    """Draw index pairs for the first two axes, and one slice for each pair."""
    drawn = gather_nd(draw)
    if drawn is None:
        return None
    inputs, _ = drawn
    updates = draw.floats((len(inputs["index"]), *inputs["x"].shape[2:]))
    return {**inputs, "updates": updates}, _reduction(draw)


def _reduction(draw: Draw) -> dict[str, Any]:
    return {"reduction": "none" if draw.dtype == "bool" else draw.attrs["reduction"]}


def scatter_reduce(draw: Draw) -> Drawn:
    """Propose inputs; without include_self, extrema start from an infinite value."""
    if not draw.attrs["include_self"]:
        draw.loses_tails = (
            "an infinite update shares its gradient with the initial value of the extremum"
        )
    return proposed(draw)


def embedding(draw: Draw) -> Drawn:
    """Propose inputs; only optimizers read `sparse`."""
    draw.without_effect["sparse"] = "it determines how an optimizer applies the gradient"
    return proposed(draw)


def index_select(draw: Draw) -> Drawn:
    """Draw a vector of indices along one axis."""
    shape = _shape(draw)
    axis = int(draw.rng.integers(-len(shape), len(shape)))
    n = shape[axis]
    count = draw.other_length() if n else 0
    draw.refused["index"] = (-n - 1, n)
    draw.drops_nan = _NOT_READ
    index = draw.integers((count,), -n, n, _kind(draw))
    return {"x": draw.floats(shape), "index": index}, {"axis": axis}


def indexed_slices(draw: Draw) -> Drawn:
    """Draw a vector of indices along one axis, and one slice for each."""
    drawn = index_select(draw)
    if drawn is None:
        return None
    inputs, attrs = dict(drawn[0]), {**draw.attrs, **drawn[1]}
    shape = list(inputs["x"].shape)
    shape[attrs["axis"]] = len(inputs["index"])
    if "value" in attrs or "alpha" in attrs:
        attrs["value" if "value" in attrs else "alpha"] = 2.0
    if "value" not in attrs:
        inputs["updates"] = draw.floats(tuple(shape))
    return inputs, attrs


def index_put(draw: Draw) -> Drawn:
    """Draw index pairs for the first two axes, and one slice for each pair."""
    drawn = gather_nd(draw)
    if drawn is None:
        return None
    inputs, _ = drawn
    del draw.refused["index"]
    index = inputs["index"]
    values = draw.floats((len(index), *inputs["x"].shape[2:]))
    given = {"x": inputs["x"], "indices": (index[:, 0].copy(), index[:, 1].copy())}
    return {**given, "values": values}, {"accumulate": draw.dtype != "bool"}


def masked(draw: Draw) -> Drawn:
    """Draw a mask with the same shape as x, and enough replacement elements."""
    shape = (draw.other_length(), draw.length)
    draw.drops_nan = "unselected or replaced elements are not read"
    inputs = {"x": draw.floats(shape), "mask": draw.rng.random(shape) < 0.5}
    if draw.definition.op_type == "masked_scatter":
        inputs["source"] = draw.floats((shape[0] * shape[1],))
    return inputs, draw.attrs


def embedding_bag(draw: Draw) -> Drawn:
    """Draw a table, and bags as the rows of the index or as offsets."""
    rows, bags = 5, draw.length
    inputs = {"weight": draw.floats((rows, draw.other_length()))}
    shape = (bags, 3) if draw.rng.random() < 0.5 else (2 * bags,)
    inputs["index"] = draw.integers(shape, 0, rows, _kind(draw))
    if len(shape) == 1:
        inputs["offsets"] = np.sort(draw.integers((bags,), 0, 2 * bags + 1, _kind(draw)))
        inputs["offsets"][:1] = 0
    draw.refused["index"] = (-1, rows)
    draw.drops_nan = _NOT_READ
    attrs = {**draw.attrs, "include_last_offset": False}
    draw.without_effect["include_last_offset"] = "an index with rows has no offsets"
    if attrs["mode"] == "sum" and draw.rng.random() < 0.5:
        inputs["per_sample_weights"] = draw.floats(shape)
    return inputs, attrs


def bernoulli(draw: Draw) -> Drawn:
    """Draw probabilities."""
    draw.drops_nan = "only probabilities are accepted"
    return {"x": draw.floats(_shape(draw), 0.0, 1.0)}, {}


def multiplex(draw: Draw) -> Drawn:
    """Draw two tensors, and the source of each row."""
    shape = (draw.length, draw.other_length())
    draw.refused["index"] = (-1, 2)
    draw.drops_nan = _NOT_READ
    index = draw.integers((draw.length,), 0, 2, _kind(draw))
    return {"index": index, "x": (draw.floats(shape), draw.floats(shape))}, {}


def constant(draw: Draw) -> Drawn:
    """Draw zeros and ones, one value per element of the shape."""
    shape = [draw.length, draw.other_length()]
    values = draw.rng.integers(0, 2, shape[0] * shape[1])
    return {}, {"values": [float(value) for value in values], "shape": shape, "dtype": draw.dtype}


def arange(draw: Draw) -> Drawn:
    """Draw integers representable in every dtype."""
    step = float(draw.choice([1.0, 2.0, 3.0]))
    stop = 5.0 + step * min(draw.length, 35)
    return {}, {"start": 5.0, "stop": stop, "step": step, "dtype": draw.dtype}


def linspace(draw: Draw) -> Drawn:
    """Draw start and stop within the range of float64."""
    start, stop = (float(number) for number in draw.rng.uniform(-9, 9, 2))
    return {}, {"start": start, "stop": stop, "num": draw.length, "dtype": draw.dtype}


def eye(draw: Draw) -> Drawn:
    """Draw the sizes of small matrices."""
    k = int(draw.rng.integers(-3, 4))
    attrs = {"n_rows": draw.length, "n_cols": draw.other_length(), "k": k, "dtype": draw.dtype}
    return {}, attrs


def randint(draw: Draw) -> Drawn:
    """Draw a range representable in every dtype."""
    shape = [draw.length, draw.other_length()]
    return {}, {**draw.attrs, "shape": shape, "low": 3, "high": 90, "dtype": draw.dtype}


def permutation(draw: Draw) -> Drawn:
    """Draw few numbers."""
    return {}, {**draw.attrs, "n": draw.length}


SAMPLES = {
    "arange": arange,
    "bernoulli": bernoulli,
    "constant": constant,
    "embedding": embedding,
    "embedding_bag": embedding_bag,
    **dict.fromkeys(("index_add", "index_copy", "index_fill"), indexed_slices),
    "index_put": index_put,
    **dict.fromkeys(("masked_select", "masked_scatter"), masked),
    "eye": eye,
    "linspace": linspace,
    "multiplex": multiplex,
    "permutation": permutation,
    "randint": randint,
    "gather_nd": gather_nd,
    "index_select": index_select,
    "scatter": scatter,
    "scatter_nd": scatter_nd,
    "scatter_reduce": scatter_reduce,
    "take_along_axis": take_along_axis,
}
