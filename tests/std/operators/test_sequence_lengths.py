"""Invalid lengths of padded sequences raise errors that name operator and value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from case import Case, Values
from one_operator import Target, build, pinned, run, run_case, targets
from table import over_targets

import opwright as ow
from opwright.errors import OpwrightError

X = Values(np.zeros((2, 3, 4)))
MATRIX = Values(np.zeros((4, 2)))
READERS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("sequence_mask", {}, {"max_length": 3}),
    ("sequence_reverse", {"x": X}, {}),
    ("sequence_pack", {"x": X}, {}),
    ("sequence_unpack", {"x": MATRIX}, {"max_length": 3}),
    ("sequence_pool", {"x": X}, {}),
)


def case_of(
    op: str, inputs: dict[str, Any], attrs: dict[str, Any], lengths: Any, label: str = ""
) -> Case:
    return Case(op, {**inputs, "lengths": Values(lengths, "int64")}, None, attrs, label=label)


def out_of_range() -> Iterator[tuple[Case, str]]:
    for reader in READERS:
        for wrong in (-1, 4, -(2**62)):
            yield case_of(*reader, [1, wrong], str(wrong)), "float32"


def unlike_the_rows() -> Iterator[tuple[Case, str]]:
    for lengths in ([1, 2], [3, 2]):
        label = str(sum(lengths))
        yield (
            case_of("sequence_unpack", {"x": MATRIX}, {"max_length": 3}, lengths, label),
            "float32",
        )


def expect_error(case: Case, dtype: str, target: Target, message: str) -> None:
    with pytest.raises((OpwrightError, ValueError), match=message), pinned(case, target):
        run_case(case, case.make_inputs(dtype), target)


@over_targets(out_of_range)
def test_a_length_out_of_range_raises(case: Case, dtype: str, target: Target) -> None:
    message = rf"(?s){case.op}.*lengths must be in \[0, [34][\])], got {case.label}"
    expect_error(case, dtype, target, message)


@over_targets(unlike_the_rows)
def test_the_number_of_packed_rows_must_be_the_sum_of_the_lengths(
    case: Case, dtype: str, target: Target
) -> None:
    expect_error(
        case,
        dtype,
        target,
        "(?s)sequence_unpack.*lengths must add up to the 4 rows of the packed sequences, "
        f"got a sum of {case.label}",
    )


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "lengths", "message"),
    [
        ("sequence_pool", {"x": X}, {}, [1], "lengths must have the shape [2], got [1]"),
        ("sequence_pack", {"x": Values([1.0])}, {}, [1], "x must have the shape [n, t, ...]"),
        ("sequence_mask", {}, {}, [1], "one of max_length and like must be given, got none"),
        ("sequence_mask", {"like": X}, {"max_length": 3}, [1, 2], "must be given, got both"),
        ("sequence_mask", {"like": X}, {}, [1], "like must have the shape [1, t, ...]"),
        ("sequence_unpack", {"x": MATRIX}, {"max_length": 3}, 1, "lengths must have the shape [n]"),
        (
            "sequence_conv",
            {"x": MATRIX, "weight": MATRIX},
            {"context_length": 1},
            [1] * 4,
            "x must",
        ),
        (
            "sequence_conv",
            {"x": X, "weight": MATRIX},
            {"context_length": 3},
            [1, 2],
            "weight must have the shape [3 * 4, m], got [4, 2]",
        ),
        (
            "sequence_conv",
            {"x": X, "weight": MATRIX, "bias": X},
            {"context_length": 1},
            [1, 2],
            "bias must have the shape [2], got [2, 3, 4]",
        ),
    ],
)
def test_an_invalid_argument_is_refused(
    op: str, inputs: Any, attrs: Any, lengths: Any, message: str
) -> None:
    case = case_of(op, inputs, attrs, lengths)
    with pytest.raises(OpwrightError, match=f"{op}: .*{re.escape(message)}"):
        build(case, case.make_inputs("float32"))


def test_the_gradient_of_packed_steps_is_padded_with_zeros() -> None:
    case = Case(
        "sequence_pack",
        {"x": Values(np.arange(12.0).reshape(2, 3, 2)), "lengths": Values([1, 3], "int64")},
        None,
    )
    for target in targets(case, "float64"):
        one = build(case, case.make_inputs("float64"))
        squares = one.block.create_var("squares", (-1, 2), "float64")
        one.block.append_op("square", {"x": one.outputs["out"]}, {"out": squares})
        loss = one.block.create_var("loss", (), "float64")
        one.block.append_op("sum", {"x": squares}, {"out": loss})
        ((_, gradient),) = ow.append_backward([loss], parameters=["x"])
        with pinned(case, target):
            (result,) = run(one.block, one.feeds, [gradient], target.device)
        expected = 2 * one.feeds["x"]
        expected[0, 1:] = 0
        np.testing.assert_array_equal(result, expected, err_msg=str(target))
