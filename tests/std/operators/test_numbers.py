"""Attribute numbers are exact for integer dtypes, and must be in the range of float dtypes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case import Case
from one_operator import build, definition_of, dispatch_dtype
from table import first_cases

import opwright as ow
from opwright.describe.wire_reading import read_value
from opwright.errors import AttributeValueError, DtypeError, FormatError
from opwright.op import AttrType

ODD = 2**53 + 1
LARGE = 2**62 + 1
X = np.array([ODD, LARGE, -ODD])
O = ow.ops  # noqa: E741

Call = Callable[[Any], Any]
WHOLE: dict[str, tuple[Call, list[int]]] = {
    "arange": (
        lambda x: O.arange(start=LARGE, stop=LARGE + 5, step=2),
        [LARGE, LARGE + 2, LARGE + 4],
    ),
    "arange-down": (lambda x: O.arange(start=ODD, stop=ODD - 2, step=-1), [ODD, ODD - 1]),
    "clip-max": (lambda x: O.clip(x, min=0, max=ODD), [ODD, ODD, 0]),
    "clip-min": (lambda x: O.clip(x, min=ODD), [ODD, LARGE, ODD]),
    "constant": (
        lambda x: O.constant(values=[ODD, -ODD, 3], shape=[3], dtype="int64"),
        [ODD, -ODD, 3],
    ),
    "fill": (lambda x: O.fill(shape=[2], value=-ODD, dtype="int64"), [-ODD, -ODD]),
    "fill-unsigned": (lambda x: O.fill(shape=[1], value=2**64 - 1, dtype="uint64"), [2**64 - 1]),
    "fill_like": (lambda x: O.fill_like(x, value=LARGE), [LARGE] * 3),
    "increment": (lambda x: O.increment(x, step=-ODD), [0, LARGE - ODD, -2 * ODD]),
    "pad": (lambda x: O.pad(x, paddings=[1, 0], value=ODD), [ODD, *X.tolist()]),
    "symbols": (lambda x: x - ODD, [0, LARGE - ODD, -2 * ODD]),
    "symbols-list": (lambda x: O.add(x * 0, [1, ODD, LARGE]), [1, ODD, LARGE]),
}


@pytest.mark.parametrize("name", WHOLE)
def test_integers_are_exact(name: str) -> None:
    call, expected = WHOLE[name]
    np.testing.assert_array_equal(
        np.asarray(call(X)), np.array(expected, np.asarray(call(X)).dtype)
    )


@pytest.mark.parametrize("name", WHOLE)
def test_integers_of_a_saved_program_are_exact(name: str, tmp_path: Path) -> None:
    call, expected = WHOLE[name]
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = main.global_block().create_var("x", [3], "int64", is_data=True)
        out = call(x)
    copy = ow.Program.from_proto(main.to_proto())
    (got,) = ow.Network(copy.global_block()).compile(["x"], [out.name])(x=X)
    np.testing.assert_array_equal(got, np.array(expected, got.dtype))


@pytest.mark.parametrize(
    ("number", "rest"), [(0.5, 1), (float(2**53), 2**20), (float(2**70), 1), (float("inf"), 1)]
)
def test_an_impossible_rounding_remainder_is_refused(number: float, rest: int) -> None:
    with pytest.raises(FormatError, match="value: must be a 64-bit integer, got"):
        read_value({"f": number, "rest": rest}, "value")
    listed = {"floats": {"values": [1.0, number], "rests": [0, rest]}}
    with pytest.raises(FormatError, match="value: must be a 64-bit integer, got"):
        read_value(listed, "value")


def test_a_list_needs_a_rounding_remainder_for_each_number() -> None:
    with pytest.raises(FormatError, match="must have a remainder for each of 2 values, got 1"):
        read_value({"floats": {"values": [1.0, 2.0], "rests": [1]}}, "value")


def test_a_compiled_kernel_is_not_selected_for_integers_that_no_double_equals() -> None:
    context = ow.current_context().with_pins({"fill": "native"})
    with ow.context_guard(context):
        np.testing.assert_array_equal(O.fill(shape=[1], value=2**53, dtype="int64"), 2**53)
        with pytest.raises(ow.errors.KernelNotFoundError, match=f"no double equals {ODD}"):
            O.fill(shape=[1], value=ODD, dtype="int64")


def numbers_of(case: Case) -> list[str]:
    attrs = definition_of(case).proto.attrs
    return [
        a.name for a in attrs if a.type is AttrType.FLOAT and a.name in definition_of(case).numbers
    ]


NUMBERED = [
    (case, name)
    for case in first_cases()
    if "float32" in case.dtypes and dispatch_dtype(case, "float32") == "float32"
    for name in numbers_of(case)
]


@pytest.mark.parametrize(("case", "name"), NUMBERED, ids=str)
def test_a_number_beyond_the_dtype_is_refused(case: Case, name: str) -> None:
    large = Case(case.op, case.inputs, None, {**case.attrs, name: 1e300}, outputs=case.outputs)
    with pytest.raises(
        AttributeValueError, match=f"{re.escape(case.op)}: {name} must be .*1e\\+300"
    ):
        build(large, large.make_inputs("float32"))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_largest_number_of_a_dtype_and_infinity_are_accepted(dtype: str) -> None:
    most = float(np.finfo(dtype).max)
    for number in (most, -most, np.inf):
        np.testing.assert_array_equal(O.fill(shape=[1], value=number, dtype=dtype), number)


def test_a_number_combined_with_an_array_fits_its_dtype_or_is_refused() -> None:
    x = np.ones(2, np.float32)
    with pytest.raises(DtypeError, match="add: y: must be numbers in the range of float32, got 1e"):
        O.add(x, 1e39)
    with pytest.raises(DtypeError, match="add: y: must be numbers in the range of float32"):
        O.add(x, [1.0, 1e39])
    np.testing.assert_array_equal(O.add(x, np.inf), [np.inf, np.inf])
    np.testing.assert_array_equal(O.add(X, ODD), X + ODD)
