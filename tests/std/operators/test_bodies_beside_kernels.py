"""Bodies of operators with CPU kernels; devices without such kernels run the bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from case import Case
from table import load_cases

import opwright as ow
from opwright.op import OpDefinition, no_gradient

TYPES = ("grid_sample", "unfold", "fold", "embedding_bag")
WITHOUT_BODY = ("far", "max")
"""Beginnings of the labels of cases for which these operators have no body."""
CASES = [c for c in load_cases() if c.op in TYPES and not c.label.startswith(WITHOUT_BODY)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_body_matches_the_reference(case: Case, add: Any) -> None:
    definition = ow.current_context().ops.get(case.op)
    proto = definition.proto.replace(type="test.part")
    without = no_gradient("its body is run alone")
    add(part=OpDefinition(proto, definition.infer_shape, without, body=definition.body))
    arrays = case.make_inputs("float64")
    got = ow.ops.test.part(**{slot: listed[0] for slot, listed in arrays.items()}, **case.attrs)
    (expected,) = case.compute_expected(arrays)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
