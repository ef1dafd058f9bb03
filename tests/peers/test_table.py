"""The peers agree with every case of the table, outputs and gradients, on every library."""

from __future__ import annotations

import pytest
from case import Case
from compare import check
from one_operator import Target
from peer import Peer
from table import every_dtype, over_targets, standard_types

_DRAWN = "the numbers are those of our generator"
_FORMULA = "no peer has it; tests/operators has its formula"

NO_PEER = {
    **dict.fromkeys(("bernoulli", "dropout", "normal", "permutation", "randint"), _DRAWN),
    **dict.fromkeys(("truncated_normal", "uniform"), _DRAWN),
    **dict.fromkeys(("cond", "scan", "while_loop"), "its bodies are blocks"),
    **dict.fromkeys(("assert_true", "print"), "it computes nothing"),
    **dict.fromkeys(("accuracy", "iou", "lamb", "lion", "ftrl"), _FORMULA),
    **dict.fromkeys(("proximal_adagrad", "proximal_gd"), _FORMULA),
    **dict.fromkeys(("edit_distance", "linear_chain_crf", "viterbi_decode"), _FORMULA),
    **dict.fromkeys(("nce", "sampled_softmax", "auc", "precision_recall"), _FORMULA),
    **dict.fromkeys(("sequence_conv", "sequence_pack", "sequence_unpack"), _FORMULA),
    **dict.fromkeys(("box_coder", "multiclass_nms", "prior_box"), _FORMULA),
    **dict.fromkeys(("nms", "roi_align", "roi_pool"), _FORMULA),
}
"""Operators that no peer has, with the reason."""


def test_every_standard_operator_has_a_peer_or_a_reason(peer: Peer) -> None:
    known = peer.list_types()
    assert sorted(set(standard_types()) - known - set(NO_PEER)) == []
    assert sorted(known & set(NO_PEER) - {"dropout"}) == []


@over_targets(every_dtype, lambda target: target.device == "cpu")
def test_table(case: Case, dtype: str, target: Target, peer: Peer) -> None:
    if case.op in NO_PEER:
        pytest.skip(NO_PEER[case.op])
    check(case, dtype, target, peer)
