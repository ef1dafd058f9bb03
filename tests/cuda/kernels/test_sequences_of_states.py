"""CRF, CTC and edit distance on a GPU match the CPU, even if states exceed shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from calls import call

from opwright.errors import KernelError
from opwright_cuda.kernels import linear_chain_crf, room

pytestmark = pytest.mark.cuda_kernels

RNG = np.random.default_rng(11)


def normal(*shape: int, dtype: str = "float32") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def compare(
    op_type: str, inputs: Mapping[str, Any], outputs: str, rtol: float = 1e-4, **attrs: Any
) -> None:
    """Assert that the results of an operator on CUDA match the CPU."""
    got, right = (call(op_type, inputs, outputs, device, **attrs) for device in ("cuda", "cpu"))
    for slot, one, other in zip(outputs.split(), got, right, strict=True):
        atol = rtol * float(np.max(np.abs(other[np.isfinite(other)]), initial=1.0))
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol, err_msg=slot)


def chain(n: int, steps: int, tags: int) -> dict[str, Any]:
    x, transition = normal(n, steps, tags), normal(tags, tags)
    lengths = RNG.integers(0, steps + 1, n)
    return {"x": x, "transition": transition, "start": normal(tags), "lengths": lengths}


@pytest.fixture(params=[False, True], ids=["shared", "workspace"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the states of a block in shared memory, or force them into a workspace."""
    if request.param:
        monkeypatch.setattr(room, "MOST_SHARED_BYTES", 0)
    monkeypatch.setattr(room, "BLOCKS_PER_MULTIPROCESSOR", 1)


@pytest.mark.usefixtures("memory")
def test_crfs_match_the_cpu_wherever_states_are_stored() -> None:
    given = chain(11, 4, 37)
    given["transition"][3] = -np.inf  # no transitions from tag 3 or to tag 5
    given["transition"][:, 5] = -np.inf
    label = RNG.integers(6, 37, (11, 4))
    compare("viterbi_decode", given, "out path")
    compare("linear_chain_crf", {**given, "label": label}, "out alpha")


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("most_bytes", [0, 2**26])
def test_crf_gradients_match_the_cpu_for_any_number_of_parts(
    most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear_chain_crf, "MOST_PART_BYTES", most_bytes)
    given = chain(9, 4, 35)
    # The only likely transition to tag 5 is from tag 7, which is itself very unlikely. Products of
    # probabilities therefore underflow, but sums of logarithms do not.
    given["transition"][:, 5] = -200.0
    given["transition"][7, 5] = 0.0
    given["x"][:, :, 7] = -200.0
    given["x"][:, :, 5] = 300.0
    given["end"] = normal(35)
    given["label"] = RNG.integers(0, 35, (9, 4))
    (alpha,) = call("linear_chain_crf", given, {"alpha": 1}, "cpu")
    inputs = {**given, "alpha": alpha, "out_grad": normal(9)}
    compare("linear_chain_crf_grad", inputs, "x_grad transition_grad start_grad end_grad")


@pytest.mark.usefixtures("memory")
def test_ctc_losses_match_the_cpu_wherever_states_are_stored() -> None:
    n, time, classes, labels = 9, 12, 7, 4
    x = np.log(RNG.dirichlet(np.ones(classes), (n, time))).astype(np.float32)
    label = RNG.integers(1, classes, (n, labels))
    label[:, 2] = label[:, 0]
    given = {"x": x, "label": label, "lengths": RNG.integers(2, time + 1, n)}
    given["label_lengths"] = RNG.integers(0, labels + 1, n)
    compare("ctc_loss", given, "out", zero_infinity=True)
    compare("ctc_loss_grad", {**given, "out_grad": normal(n)}, "x_grad")


@pytest.mark.usefixtures("memory")
def test_edit_distances_match_the_cpu_wherever_diagonals_are_stored() -> None:
    given = {"x": RNG.integers(0, 3, (9, 40)), "label": RNG.integers(0, 3, (9, 37))}
    given["lengths"] = RNG.integers(0, 41, 9).astype(np.int32)
    given["label_lengths"] = RNG.integers(0, 38, 9)
    compare("edit_distance", given, "out")


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_length_out_of_range_is_reported(wrong: int) -> None:
    given = chain(2, 3, 4) | {"lengths": np.array([wrong, 2])}
    match = rf"viterbi_decode: lengths must be in \[0, 3\], got {wrong}"
    with pytest.raises(KernelError, match=match):
        call("viterbi_decode", given, "out path")
    ids = np.zeros((2, 3), np.int64)
    for slot in ("lengths", "label_lengths"):
        match = rf"edit_distance: {slot} must be in \[0, 3\], got {wrong}"
        with pytest.raises(KernelError, match=match):
            call("edit_distance", {"x": ids, "label": ids, slot: np.array([1, wrong])})
        match = rf"ctc_loss: {slot} must be in \[0, 3\], got {wrong}"
        given = {"x": normal(2, 3, 5), "label": ids + 1, slot: np.array([1, wrong])}
        with pytest.raises(KernelError, match=match):
            call("ctc_loss", given)


@pytest.mark.parametrize("wrong", [-1, 4, 2**40])
def test_a_tag_or_label_out_of_range_is_reported(wrong: int) -> None:
    ids = np.array([[0, 1, wrong], [3, 2, 1]])
    given = chain(2, 3, 4) | {"label": ids, "lengths": np.array([3, 3])}
    with pytest.raises(KernelError, match=rf"linear_chain_crf: label must be .* got {wrong}"):
        call("linear_chain_crf", given, "out alpha")
    given |= {"alpha": given["x"], "out_grad": normal(2)}
    with pytest.raises(KernelError, match=rf"linear_chain_crf_grad: label .* got {wrong}"):
        call("linear_chain_crf_grad", given, "x_grad")
    rows = {"x": normal(2, 5, 4), "label": np.array([[1, 2, wrong], [3, 2, 1]])}
    with pytest.raises(KernelError, match=rf"ctc_loss: label must be in \[0, 4\), got {wrong}"):
        call("ctc_loss", rows)
    rows["label"] = np.array([[1, 2, 3], [1, 2, 1]])
    with pytest.raises(KernelError, match="ctc_loss_grad: label must not be blank, 3"):
        call("ctc_loss_grad", rows | {"out_grad": normal(2)}, "x_grad", blank=3)


def test_padding_is_not_read() -> None:
    ids = np.array([[0, 99, -7], [3, 2, 1]])
    lengths = np.array([1, 3])
    given = chain(2, 3, 4) | {"label": ids, "lengths": lengths}
    compare("linear_chain_crf", given, "out alpha")
    rows = {"x": normal(2, 7, 4), "label": np.array([[1, 99, -7], [3, 2, 1]])}
    compare("ctc_loss", rows | {"label_lengths": lengths}, "out")
