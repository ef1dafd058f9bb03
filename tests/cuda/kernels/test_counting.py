"""Tests counting on a GPU with more classes than fit in shared memory, and invalid inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calls import call

from opwright.errors import KernelError
from opwright_cuda.kernels.counting import MOST_SHARED
from opwright_cuda.kernels.metrics import BINS_OF_THREAD
from opwright_cuda.kernels.prior_box import MOST_PRIORS

pytestmark = pytest.mark.cuda_kernels

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("n_kinds", [MOST_SHARED, MOST_SHARED + 1])
def test_any_number_of_classes_is_counted(n_kinds: int) -> None:
    ids = np.append(RNG.integers(0, n_kinds, 500), [n_kinds - 1] * 3)
    (out,) = call("bincount", {"x": ids}, length=n_kinds)
    np.testing.assert_array_equal(out, np.bincount(ids, minlength=n_kinds))
    x = RNG.uniform(-1, 3, 500)
    (out,) = call("histogram", {"x": x}, bins=n_kinds, min=-1.0, max=3.0)
    np.testing.assert_array_equal(out, np.histogram(x, n_kinds, (-1.0, 3.0))[0])


def test_values_at_bin_edges_are_counted_as_in_numpy() -> None:
    edges = np.linspace(0.1, 0.7, 24)
    x = np.concatenate([edges, np.nextafter(edges, -1), np.nextafter(edges, 1)])
    (out,) = call("histogram", {"x": x}, bins=23, min=0.1, max=0.7)
    np.testing.assert_array_equal(out, np.histogram(x, 23, (0.1, 0.7))[0])


def test_weights_are_added_in_double() -> None:
    weights = np.array([1.0] + [2.0**-24] * 64, np.float32)
    (out,) = call("bincount", {"x": np.zeros(65, np.int64), "weights": weights}, length=2)
    np.testing.assert_array_equal(out, np.array([1 + 2.0**-18, 0], np.float32))


@pytest.mark.parametrize("wrong", [-1, 3])
def test_an_id_out_of_range_is_reported(wrong: int) -> None:
    ids = np.array([0, 2, wrong])
    weights = np.ones(3, np.float32)
    for inputs in ({"x": ids}, {"x": ids, "weights": weights}):
        with pytest.raises(KernelError, match=rf"bincount: x must be in \[0, 3\), got {wrong}"):
            call("bincount", inputs, length=3)


def _auc(x: Any, label: Any, thresholds: int = 4) -> Any:
    zeros = np.zeros(thresholds + 1, np.int64)
    inputs = {"x": x, "label": label, "positives": zeros, "negatives": zeros}
    return call("auc", inputs, "auc", num_thresholds=thresholds)[0]


@pytest.mark.parametrize("wrong", [-0.1, 1.5, np.nan])
def test_a_score_that_is_not_a_probability_is_reported(wrong: float) -> None:
    with pytest.raises(KernelError, match=r"auc: x must be probabilities .* but row 1 is outside"):
        _auc(np.array([0.5, wrong]), np.array([0, 1]))
    with pytest.raises(KernelError, match=r"auc: label must be in \[0, 2\), got 2"):
        _auc(np.array([0.5, 0.5]), np.array([0, 2]))


def test_auc_computed_in_several_blocks_matches_the_formula() -> None:
    thresholds = 256 * BINS_OF_THREAD * 2 + 5
    x, label = RNG.uniform(0, 1, 300), RNG.integers(0, 2, 300)
    bins = (x * thresholds).astype(int)
    wins = np.sign(bins[label == 1][:, None] - bins[label == 0]) / 2 + 0.5
    np.testing.assert_allclose(_auc(x, label, thresholds), [wins.mean()], rtol=1e-6)


def test_class_counts_of_several_blocks_are_merged() -> None:
    n, classes = 20, 700
    x, label = RNG.standard_normal((n, classes)), RNG.integers(0, classes, n)
    x[np.arange(n // 2), label[: n // 2]] = 9.0
    inputs = {"x": x, "label": label, "states": np.zeros((classes, 4), np.int64)}
    slots = "batch total states_out"
    for got, right in zip(
        call("precision_recall", inputs, slots),
        call("precision_recall", inputs, slots, device="cpu"),
        strict=True,
    ):
        np.testing.assert_allclose(got, right, rtol=1e-6)
    inputs["label"][3] = classes
    with pytest.raises(KernelError, match=rf"precision_recall: label must be .* got {classes}"):
        call("precision_recall", inputs, slots)


def test_more_prior_boxes_than_one_launch_supports_are_written() -> None:
    x, image = np.zeros((1, 1, 2, 3), np.float32), np.zeros((1, 1, 8, 9), np.float32)
    attrs = {"min_sizes": [float(i) for i in range(1, MOST_PRIORS + 7)], "clip": True}
    inputs = {"x": x, "image": image}
    got, right = (
        call("prior_box", inputs, "out variances", device=device, **attrs)
        for device in ("cuda", "cpu")
    )
    for one, other in zip(got, right, strict=True):
        np.testing.assert_array_equal(one, other)
