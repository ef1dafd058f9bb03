"""Outputs and gradients of every case in the table match the peers, in every library."""

from __future__ import annotations

import pytest
from case import Case
from compare import check
from one_operator import Target
from peer import Peer
from table import every_dtype, over_targets, standard_types

_DRAWN = "the numbers are those of our generator"

NO_PEER = {
    **dict.fromkeys(("bernoulli", "dropout", "normal", "permutation", "randint"), _DRAWN),
    "dropout_attention": _DRAWN,
    **dict.fromkeys(("truncated_normal", "uniform"), _DRAWN),
    **dict.fromkeys(("cond", "scan", "while_loop"), "its bodies are blocks: test_loops.py"),
    **dict.fromkeys(
        ("quantize", "dequantize"), "PyTorch's have other codes: tests of ONNX have ours"
    ),
    **dict.fromkeys(("batched_nms", "deform_conv2d"), "it is torchvision's"),
    "roi_align_places": "PyTorch has no mode max",
    "general_lstm": "PyTorch's LSTM has no peepholes and no bounds",
    **dict.fromkeys(("assert_true", "print"), "it computes nothing"),
}
"""Operators that all peers lack, with the reason."""


def test_every_standard_operator_has_a_peer_or_a_reason_for_its_absence(peer: Peer) -> None:
    known = peer.list_types()
    assert sorted(set(standard_types()) - known - set(NO_PEER)) == []
    assert sorted(known & set(NO_PEER) - {"dropout"}) == []


@over_targets(every_dtype, lambda target: target.device == "cpu")
def test_a_case_in_the_table_matches_the_peers(
    case: Case, dtype: str, target: Target, peer: Peer
) -> None:
    if case.op in NO_PEER:
        pytest.skip(NO_PEER[case.op])
    check(case, dtype, target, peer)
