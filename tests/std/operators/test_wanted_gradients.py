"""A gradient does not depend on which other gradients are requested."""

from __future__ import annotations

import numpy as np
from case import Case
from one_operator import build, compiled
from table import first_cases, graded_slots, over_cases
from test_gradients import add_loss, float_inputs

import opwright as ow


def several_gradients() -> list[Case]:
    cases = [case for case in first_cases() if not case.no_grad and "float64" in case.dtypes]
    return [case for case in cases if len(graded_slots(case, case.make_inputs("float64"))) > 1]


def gradients(case: Case, names: list[str] | None) -> dict[str, np.ndarray]:
    """Return the gradients of the named inputs, or of all inputs, by variable."""
    arrays = case.make_inputs("float64")
    one = build(case, arrays)
    loss = add_loss(one)
    wanted = [v.name for v in float_inputs(one, graded_slots(case, arrays))]
    pairs = ow.append_backward([loss], parameters=names or wanted)
    fetch = [gradient for _, gradient in pairs]
    results = compiled(one.block, one.feeds, fetch)(**one.feeds)
    return {variable.name: array for (variable, _), array in zip(pairs, results, strict=True)}


@over_cases(several_gradients())
def test_gradient_does_not_depend_on_other_requested_gradients(case: Case) -> None:
    for name, expected in gradients(case, None).items():
        alone = gradients(case, [name])
        assert list(alone) == [name]
        np.testing.assert_array_equal(alone[name], expected, err_msg=f"{case}: {name}")
