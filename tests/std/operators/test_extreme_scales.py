"""If inputs are very large or small and results are ordinary, no intermediate step overflows.

Squares and powers leave the range of a dtype long before final results do. The tests scale the
inputs of each operator, and compare results and gradients with those computed in a wider dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from case import Array, Case, is_float
from one_operator import Target, build, compiled, definition_of, graded_slots, pinned, targets
from table import first_cases, load_cases, over_targets
from test_gradients import add_loss, float_inputs

import opwright as ow

SCALES = {"float32": (1e-25, 1e20, 1e25), "float64": (1e-200, 1e160, 1e200)}
ANY = Target("cpu", None)

STATE = "its state, the mean of squares of gradients, is not a number of the dtype"
GATES = "its gates are sums of products, which are not numbers of the dtype"
ACCEPTED = {
    **dict.fromkeys(("adam", "adamw", "nadam", "radam", "lamb", "sparse_adam"), STATE),
    **dict.fromkeys(("adagrad", "adadelta", "rmsprop", "proximal_adagrad", "ftrl"), STATE),
    **dict.fromkeys(("sparse_adagrad",), STATE),
    **dict.fromkeys(("rnn", "gru", "gru_cell", "lstm", "lstm_cell", "general_lstm"), GATES),
    **dict.fromkeys(("auc", "bernoulli", "roi_align", "roi_pool"), "inputs must be in a range"),
    "fc": "what its activation takes is a sum of products, which is not a number of the dtype",
    **dict.fromkeys(
        ("scaled_dot_product_attention", "dropout_attention"),
        "scores are products, which are not numbers of the dtype",
    ),
    "iou": "areas of boxes are products; coordinates are those of images",
    **dict.fromkeys(
        ("lp_pool1d", "lp_pool2d", "lp_pool3d"),
        "powers are pooled as they are; in a scale of their own they would be pooled twice",
    ),
    "multi_head_attention": "scores are products, which are not numbers of the dtype",
    "lrn": "squares are pooled as they are; in a scale of their own they would be pooled twice",
}
"""Operators whose result can be ordinary although an intermediate value is not, and the reason to
accept it."""

SQUARES = {"batch_norm": ("variance_out",)}
"""Outputs that are themselves squares, in addition to ordinary outputs."""

ROOTS = (
    *("norm", "std", "cos_sim", "cosine_embedding_loss"),
    *("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm"),
)
"""Operators with roots of sums of squares, for which float64 has no wider dtype."""
POWERS = ("atan", "atan2", "divide", "power", "pow_scalar", "reciprocal", "rsqrt", "tanh_shrink")
"""Operators whose gradients are products of powers."""


Step = Callable[[float], dict[str, Array]]


def is_tried(case: Case) -> bool:
    return case.op not in ACCEPTED and "float64" in case.dtypes


def scaled(array: Array, scale: float, dtype: str) -> Array:
    """Return the array times the scale, rounded to `dtype`; the scale may be out of range."""
    if not is_float(array.dtype):
        return array
    product = np.asarray(array.astype(np.longdouble) * scale)
    return product.astype(dtype).astype(array.dtype)


def make_step(
    case: Case, arrays: Mapping[str, Sequence[Array]], dtype: str, target: Target
) -> Step:
    """Return a function from the input scale to the outputs and gradients of a case."""
    one = build(case, arrays)
    given = dict(one.feeds)
    squares = SQUARES.get(case.op, ())
    fetch = [v for slot, listed in one.outputs.items() for v in listed if slot not in squares]
    if not case.no_grad and (slots := graded_slots(case, arrays)):
        wanted = float_inputs(one, slots)
        pairs = ow.append_backward([add_loss(one)], parameters=wanted)
        fetch += [gradient for _, gradient in pairs]
    with pinned(case, target):
        function = compiled(one.block, one.feeds, fetch, target.device)

    def step(scale: float) -> dict[str, Array]:
        feeds = {name: scaled(array, scale, dtype) for name, array in given.items()}
        with pinned(case, target), np.errstate(all="ignore"):
            results = function(**{**one.feeds, **feeds})
        return {v.name: array for v, array in zip(fetch, results, strict=True)}

    return step


EXACT: dict[str, list[dict[str, Array]]] = {}
"""Results of `exact_results`, for several devices and libraries."""


def exact_results(case: Case) -> list[dict[str, Array]]:
    """Return the float64 results of NumPy's kernels for float32 inputs, one per scale."""
    if str(case) not in EXACT:
        wide = {
            slot: [a.astype(np.float64) if is_float(a.dtype) else a for a in listed]
            for slot, listed in case.make_inputs("float32").items()
        }
        target = Target("cpu", "numpy")
        step = make_step(
            case, wide, "float32", target if target in targets(case, "float64") else ANY
        )
        EXACT[str(case)] = [step(scale) for scale in SCALES["float32"]]
    return EXACT[str(case)]


def compare_ordinary(got: Array, wide: Any, name: str) -> None:
    """Compare the elements whose exact values are ordinary numbers of the dtype."""
    if not is_float(got.dtype):
        return
    info, exact = ml_dtypes.finfo(got.dtype), np.asarray(wide)
    size = np.abs(exact)
    least, most = 16 * float(info.smallest_normal), float(info.max) ** 0.9
    ordinary = np.isfinite(exact) & (size > least) & (size < most)
    if ordinary.any():
        absolute = 64 * float(info.eps) * float(size[ordinary].max())
        np.testing.assert_allclose(
            got[ordinary], exact[ordinary], rtol=1e-3, atol=absolute, err_msg=name
        )


def in_single() -> Iterator[tuple[Case, str]]:
    """Yield one case of each operator, and all cases of norm with a gradient."""
    norms = [case for case in load_cases() if case.op == "norm" and not case.no_grad]
    for case in {str(case): case for case in (*first_cases(), *norms)}.values():
        if is_tried(case) and "float32" in case.dtypes:
            yield case, "float32"


def compare_with_double(case: Case, dtype: str, target: Target) -> None:
    step = make_step(case, case.make_inputs(dtype), dtype, target)
    for scale, wide in zip(SCALES[dtype], exact_results(case), strict=True):
        results = step(scale)
        for name, exact in wide.items():
            compare_ordinary(results[name], exact, f"{case}: {name} of inputs times {scale}")


@over_targets(in_single, lambda target: target.device == "cpu")
def test_an_ordinary_result_of_extreme_float32_inputs_is_accurate(
    case: Case, dtype: str, target: Target
) -> None:
    compare_with_double(case, dtype, target)


def with_squares() -> Iterator[tuple[Case, str]]:
    return ((case, dtype) for case, dtype in in_single() if case.op in (*ROOTS, *POWERS))


@over_targets(with_squares, lambda target: target.device != "cpu")
def test_an_ordinary_result_of_extreme_float32_inputs_is_accurate_on_a_device(
    case: Case, dtype: str, target: Target
) -> None:
    compare_with_double(case, dtype, target)


def in_double() -> Iterator[tuple[Case, str]]:
    for case in first_cases():
        if case.op in ROOTS:
            yield case, "float64"


@over_targets(in_double)
def test_an_ordinary_result_of_extreme_float64_inputs_is_accurate(
    case: Case, dtype: str, target: Target
) -> None:
    step = make_step(case, case.make_inputs(dtype), dtype, target)
    for scale in SCALES[dtype]:
        expected = case.compute_expected(scaled_inputs(case, dtype, scale), np.longdouble)
        results = step(scale)
        for slot, exact in zip(definition_of(case).proto.outputs, expected, strict=False):
            name = build(case, case.make_inputs(dtype)).outputs[slot.name][0].name
            if exact is not None and name in results:
                compare_ordinary(results[name], exact, f"{case}: {name} of inputs times {scale}")


def scaled_inputs(case: Case, dtype: str, scale: float) -> dict[str, list[Array]]:
    arrays = case.make_inputs(dtype)
    return {
        slot: [scaled(array, scale, dtype) for array in listed] for slot, listed in arrays.items()
    }


@pytest.mark.parametrize("op", sorted(ACCEPTED))
def test_every_operator_with_an_accepted_overflow_has_a_case(op: str) -> None:
    assert op in {case.op for case in first_cases()}
