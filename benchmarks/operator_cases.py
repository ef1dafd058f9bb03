"""The cases of `operator_times.py`, with inputs and attributes of each operator at three sizes.

A size is roughly the number of elements that are read or written. For matrix products, convolutions
and other operators with more than a few operations per element, the largest size is limited by the
measuring time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import operator_families
from operator_case import COLUMNS, SIZES, Case, Spec

_FFTS: Final = ("fft", "rfft", "hfft", "fft2", "fftn", "rfftn")
REASONS: Final[dict[tuple[str, str], str]] = {
    ("dropout", ""): "In inference PyTorch returns its input itself; opwright copies it.",
    (
        "gelu",
        "",
    ): "The relative error in the tail from -5 to -2 is 5e-7; in PyTorch it reaches 0.17.",
    ("max", "int8"): "One run of loads out of the third cache; PyTorch unrolls it into several.",
    **dict.fromkeys(
        [(op, "") for op in ("reshape", "flatten", "squeeze", "unsqueeze", "unstack", "bit_cast")],
        "PyTorch returns a view of its input. opwright copies it in an eager call, but "
        "not in a plan.",
    ),
    **dict.fromkeys(
        [(op, "") for name in _FFTS for op in (name, f"i{name}")],
        "PyTorch calls MKL; opwright also moves 16 lines into vector lanes and back.",
    ),
    **dict.fromkeys(
        [("cholesky", ""), ("cholesky", "stack")],
        "LAPACK's, of (x + transpose(x)) / 2: PyTorch's reads one triangle as it is.",
    ),
    **dict.fromkeys(
        [(op, "stack") for op in ("det", "slogdet", "inverse", "solve")],
        "opwright calls LAPACK through NumPy, once per matrix of 8 rows; PyTorch calls MKL.",
    ),
    ("unique_consecutive", ""): "Two passes: where runs begin, in memory as long as x, then their "
    "elements, into memory of their number.",
    ("interpolate", "nearest"): "opwright recomputes the position of each column for each row.",
    ("kron", ""): "Rows of 45 products, each begun anew in loops over 4 axes.",
}
"""Why a row can take more than 1.3 times as long as PyTorch, by operator and layout."""

SMOOTH: Final = (
    *("exp", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "square", "reciprocal", "abs"),
    *("negative", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "erf", "sigmoid"),
    *("log_sigmoid", "relu", "relu6", "softplus", "softsign", "silu", "mish", "tanh_shrink"),
    *("elu", "selu", "celu", "leaky_relu", "gelu", "hard_sigmoid", "hard_swish", "hard_shrink"),
    *("soft_shrink", "thresholded_relu", "swish", "stanh", "soft_relu", "asinh", "exp2"),
    *("log10", "sinc", "erfc", "lgamma", "deg2rad", "digamma"),
)
STEPS: Final = (
    *("sign", "ceil", "floor", "round", "trunc", "signbit", "isnan", "isinf", "isfinite", "assign"),
)
POSITIVE: Final = frozenset(
    ("log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma")
)
ARITHMETIC: Final = (
    *("add", "subtract", "multiply", "divide", "power", "maximum", "minimum"),
    *("squared_difference", "atan2", "hypot", "logaddexp", "xlogy"),
)
WHOLE: Final = ("mod", "floor_divide", "fmod", "fmax", "heaviside", "copysign", "isclose")
COMPARISONS: Final = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
REDUCTIONS: Final = ("sum", "mean", "max", "min", "prod", "logsumexp", "norm", "variance")
POINT_LOSSES: Final = (
    *("mse", "l1", "smooth_l1", "hinge", "log_loss", "kl_div", "sigmoid_cross_entropy_with_logits"),
)


def _unary(size: int) -> Iterator[Case]:
    x = {"x": Spec((size,), -2.0, 2.0)}
    positive = {"x": Spec((size,), 0.1, 2.0)}
    inside = {"x": Spec((size,), -0.9, 0.9)}
    for op in SMOOTH:
        needs = op in POSITIVE
        yield Case(op, size, positive if needs else x, graded=("x",))
    for op in ("asin", "acos", "atanh", "erfinv"):
        yield Case(op, size, inside, graded=("x",))
    for op in STEPS:
        yield Case(op, size, x)
    yield Case("logical_not", size, {"x": Spec((size,), dtype="bool")})
    yield Case("clip", size, x, {"min": -0.5, "max": 0.5}, graded=("x",))
    yield Case("scale", size, x, {"scale": 2.0, "bias": 1.0}, graded=("x",))
    yield Case("pow_scalar", size, positive, {"exponent": 2.5}, graded=("x",))
    yield Case("cast", size, x, {"dtype": "float64"})
    yield Case("fill_like", size, x, {"value": 1.0})
    yield Case("abs", size, {"x": Spec((size,), -99, 99, "int32")}, layout="int32")


def _binary(size: int) -> Iterator[Case]:
    flat = {"x": Spec((size,)), "y": Spec((size,))}
    rows = {"x": Spec((size // COLUMNS, COLUMNS)), "y": Spec((COLUMNS,))}
    column = {"x": Spec((size // COLUMNS, COLUMNS)), "y": Spec((size // COLUMNS, 1))}
    for op in ARITHMETIC:
        yield Case(op, size, flat, graded=("x", "y"))
        yield Case(op, size, rows, layout="broadcast row", graded=("x", "y"))
    yield Case("add", size, column, layout="broadcast column", graded=("x", "y"))
    for op in (*WHOLE, *COMPARISONS):
        yield Case(op, size, flat)
    for op in ("logical_and", "logical_or", "logical_xor"):
        yield Case(op, size, {slot: Spec((size,), dtype="bool") for slot in "xy"})
    whole = {slot: Spec((size,), 1, 99, "int32") for slot in "xy"}
    for op in ("add", "multiply", "maximum", "equal", "floor_divide"):
        yield Case(op, size, whole, layout="int32")
    for op in ("bitwise_and", "bitwise_xor"):
        yield Case(op, size, whole, layout="int32")
    choice = {"condition": Spec((size,), dtype="bool"), **flat}
    yield Case("where", size, choice, graded=("x", "y"))
    yield Case("lerp", size, {**flat, "weight": Spec((size,))}, graded=("x", "y"))
    yield Case("add_n", size, {"x": [Spec((size,)) for _ in range(4)]}, graded=("x",))
    yield Case("prelu", size, {"x": Spec((size,), -2, 2), "weight": Spec((1,))}, graded=("x",))


def _reductions(size: int) -> Iterator[Case]:
    shape = (size // COLUMNS, COLUMNS)
    x = {"x": Spec(shape, 0.9, 1.1)}
    for op in REDUCTIONS:
        yield Case(op, size, x, graded=("x",))
        yield Case(op, size, x, {"axis": [1]}, "rows", ("x",))
        yield Case(op, size, x, {"axis": [0]}, "columns", ("x",))
    for op in ("any", "all"):
        yield Case(op, size, {"x": Spec(shape, dtype="bool")}, {"axis": [1]}, "rows")
    whole = {"x": Spec(shape, -99, 99, "int8")}
    for op in ("sum", "max"):
        yield Case(op, size, whole, layout="int8")
    for op in ("argmax", "argmin"):
        yield Case(op, size, x, {"axis": 1}, "rows")
    for op in ("softmax", "log_softmax"):
        yield Case(op, size, x, graded=("x",))
        yield Case(op, size, x, {"axis": 0}, "columns", ("x",))
    for op in ("cumsum", "cumprod", "cummax", "logcumsumexp"):
        yield Case(op, size, x, {"axis": 1}, "rows", ("x",))
    for op in ("nansum", "nanmean"):
        yield Case(op, size, x, {"axis": [1]}, "rows", ("x",))
    seen = {**x, "mask": Spec(shape, dtype="bool")}
    for op in ("masked_sum", "masked_mean", "masked_max", "masked_variance"):
        yield Case(op, size, seen, {"axis": [1]}, "rows", ("x",))
    yield Case("masked_softmax", size, seen, {"axis": 1}, "rows", ("x",))
    for op in ("sort", "argsort"):
        yield Case(op, size, x, {"axis": 1}, "rows")
    yield Case("top_k", size, x, {"k": 5}, "rows", ("x",))
    yield Case("cos_sim", size, {"x": Spec(shape), "y": Spec(shape)}, graded=("x", "y"))


def _movement(size: int) -> Iterator[Case]:
    shape = (size // COLUMNS, COLUMNS)
    x, rows = {"x": Spec(shape)}, size // COLUMNS
    yield Case("transpose", size, x, graded=("x",))
    yield Case("concat", size, {"x": [Spec(shape)] * 2}, {"axis": 1}, graded=("x",))
    yield Case("stack", size, {"x": [Spec(shape)] * 2}, {"axis": 0}, graded=("x",))
    yield Case("split", size, x, {"axis": 1, "num": 2})
    yield Case("slice", size, x, {"axes": [1], "starts": [10], "ends": [90]}, graded=("x",))
    reverse = {"axes": [1], "starts": [-1], "ends": [-2 - COLUMNS], "steps": [-1]}
    yield Case("slice", size, x, reverse, "reverse", ("x",))
    second = {"axes": [1], "starts": [0], "ends": [COLUMNS], "steps": [2]}
    yield Case("slice", size, x, second, "step 2", ("x",))
    yield Case("concat", size, {"x": [Spec(shape, -99, 99, "int8")] * 2}, {"axis": 1}, "int8")
    yield Case("flip", size, x, {"axis": [1]}, graded=("x",))
    yield Case("roll", size, x, {"shift": [3], "axis": [1]}, graded=("x",))
    yield Case("pad", size, x, {"paddings": [0, 0, 4, 4]}, graded=("x",))
    yield Case("tile", size, {"x": Spec((rows, COLUMNS // 2))}, {"repeats": [1, 2]}, graded=("x",))
    yield Case("expand", size, {"x": Spec((COLUMNS,))}, {"shape": list(shape)}, graded=("x",))
    yield Case("rot90", size, x, graded=("x",))
    yield Case("diff", size, x, {"axis": 1}, graded=("x",))
    yield Case("triu", size, x, graded=("x",))
    yield Case("tril", size, x, graded=("x",))
    index = Spec((rows,), 0, rows, "int64")
    yield Case("gather", size, {**x, "index": index}, graded=("x",))
    yield Case("index_select", size, {**x, "index": index}, graded=("x",))
    along = Spec(shape, 0, COLUMNS, "int64")
    yield Case("take_along_axis", size, {**x, "index": along}, {"axis": 1}, graded=("x",))
    yield Case("gather_nd", size, {**x, "index": Spec((rows, 1), 0, rows, "int64")}, graded=("x",))
    add = {"reduction": "add"}
    places = Spec(shape, 0, rows, "int64")
    yield Case("scatter", size, {**x, "index": places, "updates": Spec(shape)}, add, graded=("x",))
    yield Case("one_hot", size, {"x": Spec((rows,), 0, COLUMNS, "int64")}, {"depth": COLUMNS})
    yield Case("nonzero", size, {"x": Spec(shape, dtype="bool")})
    ids = {"x": Spec((size,), 0, 1000, "int64")}
    yield Case("bincount", size, ids, {"length": 1000})
    yield Case("unique", size, ids)
    yield Case("unique_consecutive", size, ids)
    steps = {"x": Spec((size,)), "boundaries": Spec((8,), 0.5, 0.500001)}
    yield Case("bucketize", size, steps)
    yield Case("histogram", size, {"x": Spec((size,))}, {"bins": 100, "min": 0.1, "max": 2.0})
    yield Case("fill", size, {}, {"shape": list(shape), "value": 1.0})
    embedded = {"weight": Spec((1000, COLUMNS)), "index": Spec((rows,), 0, 1000, "int64")}
    yield Case("embedding", size, embedded, graded=("weight",))


def _losses(size: int) -> Iterator[Case]:
    pair = {"x": Spec((size,), 0.1, 0.9), "label": Spec((size,), 0.1, 0.9)}
    for op in POINT_LOSSES:
        yield Case(op, size, pair, graded=("x",))
    for op in ("poisson_nll", "soft_margin_loss"):
        yield Case(op, size, pair, graded=("x",))
    yield Case("huber", size, pair, {"delta": 0.5}, graded=("x",))
    rows = (size // COLUMNS, COLUMNS)
    ids = Spec((rows[0],), 0, COLUMNS, "int64")
    entropy = {"logits": Spec(rows, -2, 2), "label": ids}
    yield Case("softmax_with_cross_entropy", size, entropy, graded=("logits",))
    yield Case("cross_entropy", size, {"x": Spec(rows), "label": ids}, graded=("x",))
    yield Case("nll", size, {"x": Spec(rows), "label": ids}, graded=("x",))


def _networks(size: int) -> Iterator[Case]:
    rows = (size // COLUMNS, COLUMNS)
    affine = {"scale": Spec((COLUMNS,)), "bias": Spec((COLUMNS,))}
    yield Case("layer_norm", size, {"x": Spec(rows), **affine}, graded=("x", "scale", "bias"))
    yield Case("rms_norm", size, {"x": Spec(rows), "scale": affine["scale"]}, graded=("x", "scale"))
    yield Case("dropout", size, {"x": Spec(rows)})
    side = {1_000: 8, 100_000: 32, 10_000_000: 112}[size]
    channels, images = (16, 1) if size <= SIZES[1] else (32, 16)
    images = max(1, size // (channels * side * side))
    image = {"x": Spec((images, channels, side, side))}
    pooled = {"kernel": [2, 2], "strides": [2, 2]}
    yield Case("max_pool2d", size, image, pooled, graded=("x",))
    yield Case("avg_pool2d", size, image, pooled, graded=("x",))
    yield Case("adaptive_avg_pool2d", size, image, {"output_size": [1, 1]}, graded=("x",))
    yield Case("adaptive_max_pool2d", size, image, {"output_size": [4, 4]}, graded=("x",))
    yield Case("pixel_shuffle", size, image, {"factor": 2}, graded=("x",))
    norm = {name: Spec((channels,)) for name in ("scale", "bias", "mean", "variance")}
    graded = ("x", "scale", "bias")
    yield Case("batch_norm", size, {**image, **norm}, {"training": True}, graded=graded)
    grouped = {**image, "scale": norm["scale"], "bias": norm["bias"]}
    yield Case("group_norm", size, grouped, {"groups": 4}, graded=graded)
    yield Case("instance_norm", size, grouped, graded=graded)
    small = {"x": Spec((max(1, images // 4), channels, side, side))}
    weight = Spec((channels, channels, 3, 3))
    padded = {"paddings": [1, 1, 1, 1]}
    yield Case("conv2d", size, {**small, "weight": weight}, padded, graded=("x", "weight"))
    one = {**small, "weight": Spec((channels, 1, 3, 3))}
    depthwise = {**padded, "groups": channels}
    yield Case("conv2d", size, one, depthwise, "depthwise", ("x", "weight"))
    yield Case("conv2d_transpose", size, {**small, "weight": weight}, graded=("x", "weight"))
    heads = (4, max(4, size // 400 // 64 * 8), 64)
    if size < SIZES[2]:
        attention = {slot: Spec((1, *heads)) for slot in "qkv"}
        yield Case("scaled_dot_product_attention", size, attention, graded=tuple("qkv"))


def _products(size: int) -> Iterator[Case]:
    side = {1_000: 18, 100_000: 182, 10_000_000: 1024}[size]
    pair = {"x": Spec((side, side)), "y": Spec((side, side))}
    yield Case("matmul", size, pair, graded=("x", "y"))
    whole = {slot: Spec((min(side, 512),) * 2, 0, 9, "int32") for slot in "xy"}
    yield Case("matmul", size, whole, layout="int32")
    batch = {slot: Spec((max(1, size // 3072), 32, 32)) for slot in "xy"}
    yield Case("matmul", size, batch, layout="stack", graded=("x", "y"))
    full = {"x": Spec((side, side)), "weight": Spec((side, side)), "bias": Spec((side,))}
    yield Case("fc", size, full, {"activation": "relu"}, graded=("x", "weight", "bias"))


def _optimizers(size: int) -> Iterator[Case]:
    base = {"param": Spec((size,)), "grad": Spec((size,)), "learning_rate": Spec((1,), 0.01, 0.02)}
    yield Case("sgd", size, base)
    yield Case("momentum", size, {**base, "velocity": Spec((size,))}, {"mu": 0.9})


FAMILIES: Final[tuple[Callable[[int], Iterator[Case]], ...]] = (
    *(_unary, _binary, _reductions, _movement, _losses, _networks, _products, _optimizers),
    *operator_families.FAMILIES,
)


def list_cases() -> list[Case]:
    """Return all cases, family by family."""
    return [case for family in FAMILIES for size in SIZES for case in family(size)]
