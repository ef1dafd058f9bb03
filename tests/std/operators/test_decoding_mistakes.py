"""Invalid lengths, tags and log-probabilities raise errors that name them."""

from __future__ import annotations

import numpy as np
import pytest
from direct import call

import opwright as ow
from opwright.errors import OpwrightError
from opwright_std.operators.edit_distance import EDIT_DISTANCE, edit_distance
from opwright_std.operators.linear_chain_crf import LINEAR_CHAIN_CRF, linear_chain_crf

X = np.zeros((2, 3, 4), np.float32)
TRANSITION = np.zeros((4, 4), np.float32)
IDS = np.zeros((2, 3), np.int64)


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_length_greater_than_the_number_of_steps_raises(wrong: int) -> None:
    for slot in ("lengths", "label_lengths"):
        inputs = {"x": [IDS], "label": [IDS], slot: [np.array([1, wrong])]}
        match = rf"edit_distance: {slot} must be in \[0, 3\], got {wrong}$"
        with pytest.raises(ValueError, match=match):
            call(edit_distance, EDIT_DISTANCE, inputs, {"normalized": True})


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_tag_within_the_length_is_checked(wrong: int) -> None:
    label = np.array([[0, 1, wrong], [3, 2, 1]])
    inputs = {"x": [X], "label": [label], "transition": [TRANSITION]}
    match = rf"linear_chain_crf: label must be in \[0, 4\), got {wrong}$"
    with pytest.raises(ValueError, match=match):
        call(linear_chain_crf, LINEAR_CHAIN_CRF, inputs, {})


@pytest.mark.parametrize("wrong", [-1, 4])
def test_the_selected_kernel_checks_tags_and_lengths(wrong: int) -> None:
    label = np.array([[0, 1, wrong], [3, 2, 1]])
    with pytest.raises(OpwrightError, match=rf"label must be in \[0, 4\), got {wrong}"):
        ow.ops.linear_chain_crf(X, label, TRANSITION)
    lengths = np.array([1, wrong])
    with pytest.raises(OpwrightError, match=rf"lengths must be in \[0, 3\], got {wrong}"):
        ow.ops.viterbi_decode(X, TRANSITION, lengths=lengths)
    with pytest.raises(OpwrightError, match=rf"label_lengths must be in \[0, 3\], got {wrong}"):
        ow.ops.edit_distance(IDS, IDS, label_lengths=lengths)


def test_log_probabilities_must_be_passed_together() -> None:
    x, ids = np.zeros((2, 4), np.float32), np.array([0, 1])
    given = {"label_log_probability": np.zeros(2, np.float32)}
    with pytest.raises(
        OpwrightError, match=r"must be given together, got label_log_probability only"
    ):
        ow.ops.nce(x, x, ids, ids, **given)
