"""The onnx cases, loaded and resaved, have the same results in ONNX Runtime and in opwright."""

from __future__ import annotations

import re
from typing import Any

import pytest
from node_cases import find_reason, load_cases

from every_case import EVERY, is_one_in

trips: Any = pytest.importorskip("round_trips", reason="onnxruntime is not installed")

CASES = {
    name: case
    for name, case in load_cases().items()
    if find_reason(name) is None and (EVERY or is_one_in(6, name))
}


@pytest.mark.parametrize("name", CASES)
def test_a_case_written_in_our_domains_has_bitwise_identical_results(name: str) -> None:
    program, fed, ours = trips.load_case(CASES[name])
    _, model = trips.write(program, only_own=True)
    trips.assert_same(ours, trips.run_again(model, fed))


@pytest.mark.parametrize("name", CASES)
def test_a_rewritten_case_has_the_same_results(name: str) -> None:
    program, fed, ours = trips.load_case(CASES[name])
    writer, model = trips.write(program)
    if writer.own:
        assert set(writer.own) <= set(trips.OWN), writer.own
        trips.assert_close(CASES[name], ours, trips.run_again(model, fed))
        return
    try:
        theirs = trips.run_elsewhere(model, fed)
    except NotImplementedError:
        assert any(re.search(pattern, name) for pattern in trips.LACKING)
    except Exception:
        if name not in trips.REFUSED:
            raise
    else:
        trips.assert_close(CASES[name], ours, theirs)


def test_every_pattern_of_missing_kernels_matches_a_case() -> None:
    assert all(any(re.search(p, name) for name in load_cases()) for p in trips.LACKING)
