"""Laws of metrics."""

from __future__ import annotations

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import ShapeError

SCORES = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.5, 0.5]])


@pytest.mark.parametrize("labels", [[1, 0, 0, 0], np.array([[1], [0], [0], [0]])])
def test_accuracy_is_the_share_of_correct_rows_and_the_first_of_equal_scores_counts(labels):
    assert nn.metrics.accuracy(SCORES, labels) == 0.75


def test_row_with_nan_is_wrong():
    assert nn.metrics.accuracy([[np.nan, 1.0], [1.0, 0.0]], [0, 0]) == 0.5


@pytest.mark.parametrize(
    ("scores", "labels", "rule"),
    [
        (SCORES[0], [1], r"scores must be \[n, classes\].* got shape \[2\]"),
        (np.zeros((0, 2)), np.zeros(0), r".*at least 1, got shape \[0, 2\]"),
        (np.zeros((2, 0)), np.zeros(2), r".*at least 1, got shape \[2, 0\]"),
        (SCORES, [1, 0, 0], r"labels must be \[4\] or \[4, 1\].* got shape \[3\]"),
        (SCORES, np.zeros((1, 4)), r"labels must be \[4\] or \[4, 1\].* got shape \[1, 4\]"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(scores, labels, rule):
    with pytest.raises(ShapeError, match=f"metrics.accuracy: {rule}"):
        nn.metrics.accuracy(scores, labels)
