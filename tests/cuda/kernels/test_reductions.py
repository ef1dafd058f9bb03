"""Tests reductions, softmax, losses and normalization on a GPU for all line lengths and layouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from calls import call

import opwright as ow
from opwright.errors import OpwrightError
from opwright_cuda.kernels import lines

pytestmark = [pytest.mark.cuda_kernels, pytest.mark.grid(4)]

RNG = np.random.default_rng(5)

# The shapes cover lines reduced by warps or blocks, and columns, each with and without splitting.
# They also cover unaligned lines, columns with row lengths that are or are not multiples of a
# vector, and several groups of axes.
SHAPES: tuple[tuple[tuple[int, ...], list[int]], ...] = (
    ((300, 7), [1]),
    ((3, 1501), [1]),
    ((40_001,), [0]),
    ((2, 17_001), [1]),
    ((30, 200), [0]),
    ((3000, 5), [0]),
    ((600, 32), [0]),
    ((3, 70, 64), [1]),
    ((40, 3, 16), [1]),
    ((2, 2100, 40), [1]),
    ((3, 4, 5, 6), [0, 2]),
    ((2, 3, 16_500), [0, 2]),
    ((2, 4001, 2, 3), [1, 3]),
)


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Return integers whose sums are exact in every accumulator type."""
    return RNG.integers(-8, 9, shape).astype(dtype)


def agree(
    op_type: str,
    inputs: Mapping[str, Any],
    outputs: str,
    tolerance: float = 2e-5,
    **attrs: Any,
) -> None:
    """Check that the results of an operator on the GPU match the CPU in float32 and float64."""
    for dtype, scale in ((np.float32, 1.0), (np.float64, 1e-8)):
        given = {
            slot: array.astype(dtype) if array.dtype.kind == "f" else array
            for slot, array in inputs.items()
        }
        made = call(op_type, given, outputs, **attrs)
        wanted = call(op_type, given, outputs, device="cpu", **attrs)
        for slot, got, right in zip(outputs.split(), made, wanted, strict=True):
            np.testing.assert_allclose(
                got, right, tolerance * scale, tolerance * scale, err_msg=f"{op_type}: {slot}"
            )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "int64"])
@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_lines_of_any_length_are_reduced(shape: Any, axes: list[int], dtype: str) -> None:
    x = numbers(shape, ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    wide = x.astype(np.int64)
    over = tuple(axes)
    (total,) = call("sum", {"x": x}, axis=axes)
    np.testing.assert_array_equal(
        total, wide.sum(over).astype(np.int64 if x.dtype.kind == "i" else x.dtype)
    )
    (largest,) = call("max", {"x": x}, axis=axes)
    np.testing.assert_array_equal(largest, wide.max(over).astype(x.dtype))
    (least,) = call("min", {"x": x}, axis=axes)
    np.testing.assert_array_equal(least, wide.min(over).astype(x.dtype))
    if len(axes) == 1:
        (place,) = call("argmax", {"x": x}, axis=axes[0])
        np.testing.assert_array_equal(place, wide.argmax(axes[0]))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((3, 4, 5, 6), [0, 2]), ((2, 4001, 2, 3), [1, 3]), ((3000, 8), [0]), ((40_001,), [0])],
    ids=str,
)
def test_norms_over_any_axes_match_the_cpu(shape: Any, axes: list[int]) -> None:
    agree("norm", {"x": RNG.normal(size=shape)}, "out", axis=axes)


@pytest.mark.parametrize("place", [0, 3, 8191, 8192, 40_000])
def test_nan_is_the_extremum_and_arg_reductions_return_the_first_nan(place: int) -> None:
    x = numbers((40_001,))
    x[[place, -1]] = np.nan
    assert np.isnan(call("max", {"x": x})[0])
    assert np.isnan(call("min", {"x": x})[0])
    assert call("argmin", {"x": x})[0] == place


def test_a_mean_is_rounded_only_after_the_division() -> None:
    x = np.full((2, 40_000), 3.0, np.float16)
    np.testing.assert_array_equal(call("mean", {"x": x})[0], np.float16(3))
    np.testing.assert_array_equal(call("mean", {"x": x}, axis=[1])[0], np.full(2, 3, np.float16))


def test_the_gradient_of_a_broadcast_bias_is_summed_over_many_rows() -> None:
    x = numbers((5, 700, 6))
    (out,) = call("sum_like", {"x": x, "like": np.zeros((1, 6), np.float32)})
    np.testing.assert_array_equal(out, x.sum((0, 1))[None])


# Some lines are kept in registers (2, 8 or 32 values per lane, or 16 or 32 values per thread of a
# block, loaded as scalars or vectors); other lines are read twice (unaligned rows and tiles).
ROWS = [(5, 40), (3, 200), (3, 700), (2, 1501), (2, 2048), (2, 5000), (2, 10_304), (3, 16_389)]
LINES = [*ROWS, (2, 31, 33), (1, 2, 300, 2)]


def line_values(shape: tuple[int, ...]) -> Any:
    """Return scores, several of which are -inf in each line."""
    x = RNG.standard_normal(shape).astype(np.float32) * 4
    x[..., : shape[-2] // 2 or 1, :1] = -np.inf
    x[..., -1, : shape[-1] - 1] = -np.inf
    return x


@pytest.mark.parametrize("op_type", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", LINES, ids=str)
def test_softmax_over_lines_of_any_length_matches_the_cpu(
    shape: tuple[int, ...], op_type: str
) -> None:
    axis = -1 if len(shape) == 2 else -2
    agree(op_type, {"x": line_values(shape)}, "out", axis=axis)
    out = call(op_type, {"x": RNG.standard_normal(shape)}, device="cpu", axis=axis)[0]
    inputs = {"x": out, "out": out, "out_grad": RNG.standard_normal(shape)}
    agree(f"{op_type}_grad", inputs, "x_grad", 1e-4, axis=axis)


@pytest.mark.parametrize("shape", [*ROWS, (30_000, 24)], ids=str)
def test_softmax_over_16_bit_lines_of_any_length_matches_the_cpu(shape: tuple[int, ...]) -> None:
    x = (RNG.standard_normal(shape) * 4).astype(ml_dtypes.bfloat16)
    (out,) = call("softmax", {"x": x})
    (wanted,) = call("softmax", {"x": x.astype(np.float32)}, device="cpu")
    np.testing.assert_allclose(out.astype(np.float32), wanted, 2**-8)


@pytest.mark.parametrize("shape", LINES[2:], ids=str)
def test_losses_over_lines_of_any_length_match_the_cpu(shape: tuple[int, ...]) -> None:
    axis = -1 if len(shape) == 2 else len(shape) - 2
    classes_left_out = (*shape[:axis], *shape[axis + 1 :]) if axis > 0 else shape[:-1]
    label = RNG.integers(0, shape[axis], classes_left_out)
    label.reshape(-1)[0] = -100
    logits = RNG.standard_normal(shape)
    op_type = "softmax_with_cross_entropy"
    agree(op_type, {"logits": logits, "label": label}, "out softmax", axis=axis)
    soft = RNG.random(shape)
    attrs = {"axis": axis, "soft_label": True}
    agree(op_type, {"logits": logits, "label": soft}, "out softmax", 1e-3, **attrs)
    out_grad = RNG.standard_normal(label.shape)
    given = {"label": label, "softmax": soft, "out_grad": out_grad, "logits": logits}
    agree(f"{op_type}_grad", given, "logits_grad", axis=axis)
    given = {**given, "label": soft, "out_grad": np.expand_dims(out_grad, axis)}
    agree(f"{op_type}_grad", given, "logits_grad", 1e-3, **attrs)
    if axis != -1:
        return
    soft[0, 0] = 0.0
    agree("cross_entropy", {"x": soft, "label": np.abs(label) % 7}, "out")
    agree("cross_entropy", {"x": soft, "label": soft}, "out", 1e-4, soft_label=True)
    given = {"x": soft, "label": soft, "out_grad": out_grad[:, None]}
    agree("cross_entropy_grad", given, "x_grad label_grad", soft_label=True, epsilon=0.1)


@pytest.mark.parametrize("many", [1, lines.MANY_LINES], ids=["warps", "blocks"])
@pytest.mark.parametrize("shape", LINES, ids=str)
def test_probabilities_are_not_written_if_only_the_loss_is_requested(
    shape: tuple[int, ...], many: int, monkeypatch: pytest.MonkeyPatch, launched: list[str]
) -> None:
    monkeypatch.setattr(lines, "MANY_LINES", many)
    axis = -1 if len(shape) == 2 else len(shape) - 2
    logits = line_values(shape)
    logits.reshape(-1)[-1] = np.nan
    logits[0].reshape(-1)[-1] = np.inf
    label = RNG.integers(shape[axis] // 2, shape[axis] - 1, logits.max(axis).shape)
    label.reshape(-1)[0] = -100
    op_type = "softmax_with_cross_entropy"
    with ow.context_guard(ow.Context.discover()):  # avoids cached plans with different teams
        agree(op_type, {"logits": logits, "label": label}, "out", axis=axis)
    assert [name.split("<")[0] for name in launched] == ["class_loss_alone_lines"] * len(launched)


@pytest.mark.parametrize("k", [1, 5])
def test_accuracy_of_rows_of_any_length_matches_the_cpu(k: int) -> None:
    for rows, classes in ((700, 9), (3, 1500)):
        x = numbers((rows, classes))
        label = RNG.integers(0, classes, rows)
        agree("accuracy", {"x": x, "label": label}, "accuracy correct total", k=k)


@pytest.mark.parametrize("wrong", [-1, 10, 2**33])
@pytest.mark.parametrize("op_type", ["cross_entropy", "softmax_with_cross_entropy", "accuracy"])
def test_a_label_out_of_range_raises(op_type: str, wrong: int) -> None:
    slot = "logits" if op_type.startswith("softmax") else "x"
    outputs = "accuracy correct total" if op_type == "accuracy" else "out"
    outputs += " softmax" if slot == "logits" else ""
    given = {slot: np.full((2, 10), 0.1, np.float32), "label": np.array([1, wrong])}
    with pytest.raises(
        OpwrightError, match=rf"{op_type}: label must be in \[0, 10\), got {wrong}\b"
    ):
        call(op_type, given, outputs)


@pytest.mark.parametrize("shape", [(900, 24), *ROWS[1:]], ids=str)
def test_layer_norm_supports_lines_of_any_length(shape: tuple[int, ...]) -> None:
    x, out_grad = RNG.standard_normal(shape) * 3 + 50, RNG.standard_normal(shape)
    scale, bias = RNG.standard_normal((2, shape[1]))
    given = {"x": x, "scale": scale, "bias": bias}
    agree("layer_norm", given, "out mean inv_std", 1e-3)
    given["out_grad"] = out_grad
    given["mean"], given["inv_std"] = x.mean(1), 1 / x.std(1)
    agree("layer_norm_grad", given, "x_grad scale_grad bias_grad", 1e-3)


@pytest.mark.parametrize(
    "shape",
    [(1500, 3), (600, 32), (600, 2, 3), (4, 3, 5), (5, 2, 30, 9), (2, 3, 1300), (1, 2, 17_001)],
    ids=str,
)
def test_batch_norm_supports_channels_of_any_size(shape: tuple[int, ...]) -> None:
    x, out_grad = RNG.standard_normal(shape) * 3 + 50, RNG.standard_normal(shape)
    channels = {name: RNG.random(shape[1]) + 1 for name in ("scale", "bias", "mean", "variance")}
    for training in (True, False):
        given = {"x": x, **channels}
        agree("batch_norm", given, "out saved_mean saved_inv_std", 5e-3, training=training)
        given["out_grad"] = out_grad
        axes = (0, *range(2, len(shape)))
        given["saved_mean"], given["saved_inv_std"] = x.mean(axes), 1 / x.std(axes)
        agree("batch_norm_grad", given, "x_grad scale_grad bias_grad", 5e-3, training=training)


@pytest.mark.parametrize("shape", [(2000, 8), (1500, 3), (2, 3, 700), (2, 3, 9000)], ids=str)
def test_variances_are_accurate_for_large_means(shape: tuple[int, ...]) -> None:
    x = (RNG.standard_normal(shape) + 1e4).astype(np.float32)
    channels = dict.fromkeys(("scale", "bias", "mean", "variance"), np.ones(shape[1], np.float32))
    slots = "saved_mean saved_inv_std"
    mean, inv_std = call("batch_norm", {"x": x, **channels}, slots, training=True, epsilon=0.0)
    axes = (0, *range(2, len(shape)))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(axes), rtol=2e-7)
    np.testing.assert_allclose(inv_std, 1 / wide.std(axes), rtol=2e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_cosine_similarities_of_long_and_broadcast_vectors_match_the_cpu(axis: int) -> None:
    for x_shape, y_shape in (((3, 1500), (3, 1500)), ((1, 300), (4, 300)), ((300, 4), (300, 1))):
        if x_shape[axis] != y_shape[axis]:
            continue
        x, y = RNG.standard_normal(x_shape), RNG.standard_normal(y_shape)
        x[0] = 0.0
        outputs = "out x_norm y_norm"
        agree("cos_sim", {"x": x, "y": y}, outputs, axis=axis, scale=2.0)
