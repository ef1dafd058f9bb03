"""The results of an operator do not depend on whether its saved outputs are read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from case import Case, is_float
from one_operator import Target, build, definition_of, pinned, run, run_case
from table import every_dtype, over_targets


def with_intermediates() -> Iterator[tuple[Case, str]]:
    for case, dtype in every_dtype():
        if definition_of(case).any_intermediate:
            yield case, dtype


@over_targets(with_intermediates)
def test_outputs_do_not_depend_on_other_requested_outputs(
    case: Case, dtype: str, target: Target
) -> None:
    arrays = case.make_inputs(dtype)
    one = build(case, arrays)
    main = [slot.name for slot in one.definition.proto.outputs if not slot.intermediate]
    fetch = [variable for slot in main for variable in one.outputs[slot]]
    if not fetch:
        pytest.skip("all outputs are intermediate")
    with np.errstate(all="ignore"):
        everything = run_case(case, arrays, target)
        with pinned(case, target):
            alone = run(one.block, one.feeds, fetch, target.device)
    for got, expected in zip(alone, [a for slot in main for a in everything[slot]], strict=True):
        if not is_float(got.dtype):
            np.testing.assert_array_equal(got, expected)
            continue
        relative, absolute = case.tolerance(got.dtype)
        wide, right = got.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(wide, right, rtol=relative, atol=absolute, err_msg=str(case))
