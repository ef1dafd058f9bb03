"""Cases for operators of special areas: algebra, signals, images, sequences, optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from operator_case import COLUMNS, SIZES, Array, Case, Spec

PLAIN_WINDOWS: Final = ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall")
WINDOWS: Final[dict[str, dict[str, Any]]] = {
    **{name: {} for name in PLAIN_WINDOWS},
    "kaiser": {"beta": 12.0},
    "gaussian": {"std": 7.0},
    "exponential": {"tau": 3.0},
    "general_cosine": {"coefficients": [0.5, 0.3, 0.2]},
}
MASKED: Final = ("min", "prod", "logsumexp", "norm", "std")
IMAGE: Final = {SIZES[0]: (1, 4, 16, 16), SIZES[1]: (2, 16, 56, 56), SIZES[2]: (16, 64, 100, 100)}


def _plus_diagonal(matrices: Array) -> Array:
    """Return symmetric positive definite matrices."""
    n = matrices.shape[-1]
    both = (matrices + matrices.swapaxes(-1, -2)) / (2 * n)
    return (both + 2 * np.eye(n)).astype(matrices.dtype)


def _steps(numbers: Array) -> Array:
    """Return integers that increase from 0."""
    found = np.sort(numbers)
    found[0] = 0
    return found


def _without_some(x: Array) -> Array:
    """Replace every seventh element by NaN and return the array."""
    x.reshape(-1)[::7] = np.nan
    return x


def _elementwise(size: int) -> Iterator[Case]:
    x, flat = {"x": Spec((size,), -2.0, 2.0)}, {slot: Spec((size,)) for slot in "xy"}
    whole = {"x": Spec((size,), 1, 99, "int32"), "y": Spec((size,), 1, 9, "int32")}
    yield Case("acosh", size, {"x": Spec((size,), 1.1, 3.0)}, graded=("x",))
    for op in ("frac", "rad2deg"):
        yield Case(op, size, x, graded=("x",))
    yield Case("logit", size, {"x": Spec((size,), 0.1, 0.9)}, graded=("x",))
    yield Case("polygamma", size, {"x": Spec((size,))}, {"n": 1}, graded=("x",))
    yield Case("nan_to_num", size, {"x": Spec((size,), then=_without_some)}, graded=("x",))
    for op in ("fmin", "logaddexp2", "xlog1py"):
        yield Case(op, size, flat, graded=("x", "y"))
    yield Case("allclose", size, flat)
    for op in ("bitwise_or", "left_shift", "right_shift"):
        yield Case(op, size, whole, layout="int32")
    yield Case("bitwise_not", size, {"x": whole["x"]}, layout="int32")
    yield Case("bit_cast", size, x, {"dtype": "int32"})
    bools = {slot: Spec((size,), dtype="bool") for slot in "xy"}
    for op in ("maximum", "add", "multiply"):
        yield Case(op, size, bools, layout="bool")
    for op in ("divide", "minimum", "subtract"):
        yield Case(op, size, whole, layout="int32")
    for op in ("label_smooth", "increment"):
        yield Case(op, size, {"x": Spec((max(1, size // COLUMNS), COLUMNS))}, graded=("x",))


def _lines(size: int) -> Iterator[Case]:
    shape = (size // COLUMNS, COLUMNS)
    x, rows = {"x": Spec(shape, 0.9, 1.1)}, {"axis": [1]}
    seen = {**x, "mask": Spec(shape, dtype="bool")}
    for name in MASKED:
        yield Case(f"masked_{name}", size, seen, rows, "rows", ("x",))
    for name in ("log_softmax", "cumsum", "cumprod"):
        yield Case(f"masked_{name}", size, seen, {"axis": 1}, "rows", ("x",))
    for name in ("argmax", "argmin"):
        yield Case(f"masked_{name}", size, seen, {"axis": 1}, "rows")
    yield Case("masked_select", size, seen, graded=("x",))
    yield Case("masked_scatter", size, {**seen, "source": Spec(shape)}, graded=("x", "source"))
    yield Case("std", size, x, rows, "rows", ("x",))
    yield Case("aminmax", size, x, rows, "rows", ("x",))
    yield Case("cummin", size, x, {"axis": 1}, "rows", ("x",))
    yield Case("count_nonzero", size, x, rows, "rows")
    for op in ("median", "nanmedian"):
        yield Case(op, size, x, rows, "rows", ("x",))
    for op in ("quantile", "nanquantile"):
        yield Case(op, size, x, {**rows, "q": 0.3}, "rows", ("x",))
    whole = {"x": Spec(shape, 1, 99, "int32")}
    for op in ("sum", "max"):
        yield Case(op, size, whole, rows, "int32 rows")
    yield Case("sum", size, {"x": Spec(shape, dtype="bool")}, rows, "bool rows")
    yield Case("sort", size, whole, {"axis": 1}, "int32 rows")
    table = {"x": Spec((1_000,), then=np.sort), "values": Spec((size,))}
    yield Case("searchsorted", size, table)


def _views(size: int) -> Iterator[Case]:
    rows = size // COLUMNS
    x = {"x": Spec((rows, COLUMNS))}
    yield Case("reshape", size, x, {"shape": [-1]}, graded=("x",))
    yield Case("flatten", size, x, {"start_axis": 0}, graded=("x",))
    yield Case("squeeze", size, {"x": Spec((rows, 1, COLUMNS))}, {"axis": [1]}, graded=("x",))
    yield Case("unsqueeze", size, x, {"axis": [1]}, graded=("x",))
    yield Case("unstack", size, {"x": Spec((4, size // 4))}, {"num": 4})
    yield Case("flip", size, x, {"axis": [0]}, "of rows", graded=("x",))
    for op in ("fftshift", "ifftshift"):
        yield Case(op, size, x, {"axis": [1]}, graded=("x",))
    side = int(size**0.5)
    square = {"x": Spec((side, side))}
    yield Case("rot90", size, square, {"k": 2}, "half", graded=("x",))
    for op in ("diag", "trace"):
        yield Case(op, size, square, graded=("x",))
    yield Case("eye", size, {}, {"n_rows": side})
    yield Case("linspace", size, {}, {"start": 0.0, "stop": 1.0, "num": size})
    attrs = {"start": 0.0, "stop": 1.0, "num": size, "dtype": "float64"}
    yield Case("logspace", size, {}, attrs)
    sole = Spec((rows,), then=np.argsort)
    half = {"x": Spec((2 * rows, COLUMNS)), "index": sole}
    updates = {**half, "updates": Spec((rows, COLUMNS))}
    for op in ("index_add", "index_copy"):
        yield Case(op, size, updates, graded=("x", "updates"))
    yield Case("index_fill", size, half, {"value": 1.5}, graded=("x",))
    put = {"x": half["x"], "indices": [sole], "values": updates["updates"]}
    yield Case("index_put", size, put, {"accumulate": True}, graded=("x", "values"))
    nd = {**updates, "index": Spec((rows, 1), 0, rows, "int64")}
    yield Case("scatter_nd", size, nd, {"reduction": "add"}, graded=("x", "updates"))
    places = Spec((rows, COLUMNS), 0, rows, "int64")
    given = {**x, "index": places, "updates": Spec((rows, COLUMNS))}
    attrs = {"reduction": "mean", "include_self": False}
    yield Case("scatter_reduce", size, given, attrs, graded=("x", "updates"))
    inside = {"axes": [1], "starts": [10], "ends": [60]}
    yield Case("slice_scatter", size, {**x, "updates": Spec((rows, 50))}, inside, graded=("x",))
    bags = {
        "weight": Spec((1_000, COLUMNS)),
        "index": Spec((rows,), 0, 1_000, "int64"),
        "offsets": Spec((max(1, rows // 10),), 0, rows, "int64", _steps),
    }
    yield Case("embedding_bag", size, bags, graded=("weight",))


def _algebra(size: int) -> Iterator[Case]:
    side = {SIZES[0]: 18, SIZES[1]: 182, SIZES[2]: 512}[size]
    square, full = Spec((side, side), then=_plus_diagonal), Spec((side, side))
    small = Spec((max(1, size // 64), 8, 8), then=_plus_diagonal)
    if size < SIZES[2]:
        for layout, spec in (("", square), ("stack", small)):
            for op in ("inverse", "cholesky"):
                yield Case(op, size, {"x": spec}, {}, layout, ("x",))
            yield Case("slogdet", size, {"x": spec}, {}, layout)
            yield Case("solve", size, {"a": spec, "b": spec}, {}, layout, ("a", "b"))
        yield Case("det", size, {"x": small}, {}, "stack", ("x",))
    system = {"a": square, "b": full}
    yield Case("triangular_solve", size, system, graded=("a", "b"))
    yield Case("triangular_solve", size, system, {"left": False}, "right", ("a", "b"))
    points = {"x": Spec((side, 16)), "y": Spec((side, 16))}
    for p in (2.0, 1.0):
        yield Case("cdist", size, points, {"p": p}, f"p={p:g}", ("x", "y"))
    yield Case("dot", size, {slot: Spec((size,)) for slot in "xy"}, graded=("x", "y"))
    row = Spec((int(size**0.5),))
    yield Case("outer", size, {"x": row, "y": row}, graded=("x", "y"))
    yield Case("kron", size, {"x": Spec((10, 10)), "y": Spec((side // 4,) * 2)}, graded=("x", "y"))
    vectors = {slot: Spec((size // 3, 3)) for slot in "xy"}
    yield Case("cross", size, vectors, graded=("x", "y"))
    product = {"a": full, "b": full, "c": full}
    yield Case("gemm", size, product, {"alpha": 2.0, "beta": 0.5}, graded=("a", "b", "c"))
    rows = max(8, size // 512)
    experts = {
        "x": Spec((rows, 64)),
        "weight": Spec((8, 64, 128)),
        "offsets": Spec((8,), 0, rows, "int32", _steps),
    }
    yield Case("grouped_matmul", size, experts, graded=("x", "weight"))
    terms = {"x": [Spec((max(1, size // 1024), 32, 32))] * 2}
    yield Case("einsum", size, terms, {"equation": "bij,bjk->bik"}, graded=("x",))
    rows = max(1, size // 1_000)
    forms = {"x": Spec((rows, 32)), "y": Spec((rows, 32)), "weight": Spec((8, 32, 32))}
    yield Case("bilinear", size, forms, graded=("x", "y", "weight"))


def _signals(size: int) -> Iterator[Case]:
    rows, width = max(1, size // 1024), 1024 if size > SIZES[0] else 512
    pairs, numbers = {"x": Spec((rows, width, 2))}, {"x": Spec((rows, width))}
    half = {"x": Spec((rows, width // 2 + 1, 2))}
    for op in ("fft", "ifft"):
        yield Case(op, size, pairs, graded=("x",))
    yield Case("rfft", size, numbers, graded=("x",))
    yield Case("irfft", size, half, {"n": width}, graded=("x",))
    yield Case("hfft", size, half, {"n": width}, graded=("x",))
    yield Case("ihfft", size, numbers, graded=("x",))
    odd = {"x": Spec((rows, 1000 if size > SIZES[0] else 500, 2))}
    yield Case("fft", size, odd, layout="length 1000", graded=("x",))
    side = 32 if size == SIZES[0] else 128
    images = max(1, size // side**2)
    plane, real = {"x": Spec((images, side, side, 2))}, {"x": Spec((images, side, side))}
    for op in ("fft2", "ifft2"):
        yield Case(op, size, plane, graded=("x",))
    for op in ("fftn", "ifftn"):
        yield Case(op, size, plane, {"axis": [1, 2]}, graded=("x",))
    yield Case("rfftn", size, real, {"axis": [1, 2]}, graded=("x",))
    packed = {"x": Spec((images, side, side // 2 + 1, 2))}
    yield Case("irfftn", size, packed, {"axis": [1, 2], "n": side}, graded=("x",))
    n_fft = 64 if size == SIZES[0] else 512
    signal = {"x": Spec((max(1, size // 50_000), min(size, 50_000))), "window": Spec((n_fft,))}
    yield Case("stft", size, signal, {"n_fft": n_fft}, graded=("x",))
    frames = max(4, size // n_fft)
    spectrum = {"x": Spec((n_fft // 2 + 1, frames, 2)), "window": signal["window"]}
    yield Case("istft", size, spectrum, {"n_fft": n_fft}, graded=("x",))
    if size < SIZES[2]:
        for name, more in WINDOWS.items():
            yield Case(f"{name}_window", size, {}, {"length": size, "dtype": "float64", **more})


def _images(size: int) -> Iterator[Case]:
    n, channels, side, _ = IMAGE[size]
    image, halves = {"x": Spec(IMAGE[size])}, {"kernel": [2, 2], "strides": [2, 2]}
    yield Case("lp_pool2d", size, image, halves, graded=("x",))
    small = Spec((n, channels, side // 2, side // 2))
    places = np.arange(side * side).reshape(side, side)[::2, ::2]
    index = Spec(small.shape, 0, 2, "int32", lambda drawn: (0 * drawn + places).astype("int32"))
    unpooled = {"x": small, "index": index}
    yield Case("max_unpool2d", size, unpooled, {"output_size": [side, side]}, graded=("x",))
    grid = {"grid": Spec((n, side, side, 2), -1.0, 1.0)}
    yield Case("grid_sample", size, {**image, **grid}, graded=("x", "grid"))
    colors = Spec((max(1, size // (3 * side * side)), 3, side, side))
    grid = {"grid": Spec((colors.shape[0], side, side, 2), -1.0, 1.0)}
    yield Case("grid_sample", size, {"x": colors, **grid}, {}, "3 channels", ("x", "grid"))
    theta = {"theta": Spec((n, 2, 3))}
    yield Case("affine_grid", size, theta, {"output_size": [side, side]}, graded=("theta",))
    for mode in ("nearest", "bilinear"):
        attrs = {"output_size": [side * 3 // 2] * 2, "mode": mode}
        yield Case("interpolate", size, image, attrs, mode, ("x",))
    yield Case("interpolate", size, {"x": colors}, attrs, "3 channels", ("x",))
    for mode in ("cubic", "area"):
        attrs = {"output_size": [side * 3 // 2 if mode == "cubic" else side // 2] * 2}
        yield Case("resize", size, image, {**attrs, "mode": mode}, mode, ("x",))
    windows = {"kernel": [3, 3], "paddings": [1, 1, 1, 1]}
    yield Case("unfold", size, {"x": small}, windows, graded=("x",))
    columns = {"x": Spec((n, channels * 9, side * side // 4))}
    yield Case("fold", size, columns, {**windows, "output_size": [side // 2] * 2}, graded=("x",))
    yield Case("lrn", size, image, {"size": 5}, graded=("x",))
    yield Case("max_pool2d", size, {"x": Spec(IMAGE[size], 0, 99, "int32")}, halves, "int32")
    gaps = {"kernel": [3, 3], "strides": [2, 2], "dilations": [2, 2]}
    yield Case("max_pool2d", size, image, gaps, "dilated", ("x",))
    line, cube = Spec((n, channels, side * side)), Spec((n, channels, 4, side // 2, side // 2))
    for kind in ("max", "avg"):
        yield Case(f"{kind}_pool1d", size, {"x": line}, {"kernel": [2]}, graded=("x",))
        yield Case(f"{kind}_pool3d", size, {"x": cube}, {"kernel": [2, 2, 2]}, graded=("x",))
        attrs = {"output_size": [2, 2, 2]}
        yield Case(f"adaptive_{kind}_pool3d", size, {"x": cube}, attrs, graded=("x",))
    if size < SIZES[2]:
        yield from _filters(size)


def _filters(size: int) -> Iterator[Case]:
    n, channels, side, _ = IMAGE[size]
    graded = ("x", "weight")
    for name, space, kernel in (
        ("1d", (side * 16,), (3,)),
        ("3d", (4, side // 2, side // 2), (3,) * 3),
    ):
        given = {"x": Spec((n, channels, *space)), "weight": Spec((channels, channels, *kernel))}
        yield Case(f"conv{name}", size, given, graded=graded)
        yield Case(f"conv{name}_transpose", size, given, graded=graded)
    two = {"kernel": [2], "strides": [2]}
    yield Case("lp_pool1d", size, {"x": Spec((n, channels, side * side))}, two, graded=("x",))


def _losses(size: int) -> Iterator[Case]:
    pair = {"x": Spec((size,), 0.1, 0.9), "label": Spec((size,), 0.1, 0.9)}
    yield Case("binary_cross_entropy", size, pair, graded=("x",))
    yield Case("weighted_sigmoid_cross_entropy", size, pair, graded=("x",))
    yield Case("gaussian_nll", size, {**pair, "variance": Spec((size,))}, graded=("x", "variance"))
    sides = {"x": Spec((size,)), "y": Spec((size,))}
    yield Case("margin_rank_loss", size, {**sides, "label": Spec((size,))}, graded=("x", "y"))
    rows = (size // COLUMNS, COLUMNS)
    ids = Spec((rows[0],), 0, COLUMNS, "int64")
    yield Case(
        "weighted_cross_entropy", size, {"logits": Spec(rows), "label": ids}, graded=("logits",)
    )
    for op in ("weighted_nll", "multi_margin_loss"):
        yield Case(op, size, {"x": Spec(rows), "label": ids}, graded=("x",))
    three = {slot: Spec(rows) for slot in ("anchor", "positive", "negative")}
    yield Case("triplet_margin_loss", size, three, graded=tuple(three))
    vectors = {"x": Spec(rows), "y": Spec(rows), "label": Spec((rows[0],), then=np.ones_like)}
    yield Case("cosine_embedding_loss", size, vectors, graded=("x", "y"))
    if size < SIZES[2]:
        logs = Spec((size // 1_000, 50, 20), -4.0, -2.0)
        label = Spec((size // 1_000, 10), 1, 20, "int64")
        yield Case("ctc_loss", size, {"x": logs, "label": label}, graded=("x",))


def _sequences(size: int) -> Iterator[Case]:
    if size == SIZES[2]:
        return
    steps, batch, width = (8, 2, 16) if size == SIZES[0] else (32, 16, 128)
    for op, gates in (("lstm", 4), ("gru", 3), ("rnn", 1)):
        wide = Spec((gates * width, width), -0.1, 0.1)
        given = {"x": Spec((steps, batch, width)), "weight_ih": [wide], "weight_hh": [wide]}
        yield Case(op, size, given, graded=("x", "weight_ih", "weight_hh"))
        if op == "rnn":
            continue
        state = {slot: Spec((batch, width)) for slot in ("h", "c")[: gates - 2]}
        cell = {"x": Spec((batch, width)), **state, "weight_ih": wide, "weight_hh": wide}
        yield Case(f"{op}_cell", size, cell, graded=("x", "weight_ih", "weight_hh"))
    words = {slot: Spec((2, steps, width)) for slot in ("query", "key", "value")}
    weights = {f"{part}_weight": Spec((width, width), -0.1, 0.1) for part in ("q", "k", "v", "out")}
    both = {**words, **weights}
    yield Case("multi_head_attention", size, both, {"num_heads": 4}, graded=tuple(both))


def _optimizers(size: int) -> Iterator[Case]:
    arrays = {slot: Spec((size,)) for slot in ("param", "grad")}
    base = {**arrays, "learning_rate": Spec((1,), 0.01, 0.02)}
    moments = {slot: Spec((size,)) for slot in ("moment1", "moment2")}
    powers = {"beta1_power": Spec((1,), 0.9, 0.901), "beta2_power": Spec((1,), 0.998, 0.999)}
    for op in ("adam", "adamw"):
        yield Case(op, size, {**base, **moments, **powers})
    yield Case("rmsprop", size, {**base, "mean_square": Spec((size,))})
    yield Case("adagrad", size, {**base, "squares": Spec((size,))})
    yield Case(
        "adadelta", size, {**base, "mean_square": Spec((size,)), "mean_update": Spec((size,))}
    )


FAMILIES: Final[tuple[Callable[[int], Iterator[Case]], ...]] = (
    *(_elementwise, _lines, _views, _algebra, _signals, _images, _losses, _sequences),
    _optimizers,
)
