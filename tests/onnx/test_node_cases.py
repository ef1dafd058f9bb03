"""The onnx node cases have the expected results, unless they are listed as refused."""

from __future__ import annotations

import re

import pytest
from node_cases import REFUSED, find_reason, load_cases, load_stored_cases, run_case

from every_case import EVERY, is_one_in
from opwright.errors import OpwrightError

CASES = {name: case for name, case in load_cases().items() if EVERY or is_one_in(4, name)}
RIGHT = [name for name in CASES if find_reason(name) is None]
STORED = {
    name: case
    for kind in ("simple", "pytorch-operator", "pytorch-converted")
    for name, case in load_stored_cases(kind).items()
    if EVERY or kind == "simple" or is_one_in(10, name)
}
WRONG = [name for name in CASES if find_reason(name) is not None]


@pytest.mark.parametrize("name", RIGHT)
def test_a_node_case_has_the_results_that_onnx_expects(name: str) -> None:
    run_case(CASES[name])


@pytest.mark.parametrize("name", STORED)
def test_a_node_case_stored_in_files_has_the_results_that_onnx_expects(name: str) -> None:
    run_case(STORED[name])


@pytest.mark.parametrize("name", WRONG)
def test_a_case_listed_as_refused_does_not_pass(name: str) -> None:
    with pytest.raises((OpwrightError, AssertionError), match="."):
        run_case(CASES[name])


@pytest.mark.parametrize("pattern", REFUSED)
def test_every_pattern_of_refused_cases_matches_a_case(pattern: str) -> None:
    assert any(re.search(pattern, name) for name in load_cases())
