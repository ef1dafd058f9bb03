"""Argument checks: accepted values, returned plain values, and error messages."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from opwright.errors import AttributeTypeError, AttributeValueError, DtypeError
from opwright_nn import checks


def test_ints_of_all_types_become_int():
    for value in (3, np.int8(3), np.uint64(3), np.array(3)):
        number = checks.check_int("w", "n", value, at_least=3, at_most=3)
        assert (number, type(number)) == (3, int)


@pytest.mark.parametrize("value", [True, np.True_, 3.0, "3", None, [3]])
def test_a_value_that_is_not_an_int_is_refused(value):
    with pytest.raises(AttributeTypeError, match=r"^w: n must be an int, got .*; write n=1, f"):
        checks.check_int("w", "n", value)


@pytest.mark.parametrize("value", [2, 5])
def test_an_int_outside_its_range_is_refused(value):
    rule = re.escape(f"w: n must be an int in [3, 4], got {value}")
    with pytest.raises(AttributeValueError, match=rule):
        checks.check_int("w", "n", value, at_least=3, at_most=4)


def test_numbers_of_all_types_become_float():
    for value in (1, 1.0, np.float32(1), np.int64(1)):
        number = checks.check_float("w", "x", value, at_least=1.0, at_most=1.0)
        assert (number, type(number)) == (1.0, float)


@pytest.mark.parametrize("value", [True, np.True_, "1", None, 1j, np.ones(1)])
def test_a_value_that_is_not_a_number_is_refused(value):
    with pytest.raises(AttributeTypeError, match="w: x must be a finite number, got"):
        checks.check_float("w", "x", value)


@pytest.mark.parametrize(
    ("bounds", "outside", "span"),
    [
        ({}, [math.nan, math.inf, -math.inf], ""),
        ({"above": 0.0}, [0.0, -1.0, math.inf], " in (0, inf)"),
        ({"at_least": 0.0}, [-1e-9, math.inf], " in [0, inf)"),
        ({"at_least": 0.0, "below": 1.0}, [-1e-9, 1.0], " in [0, 1)"),
        ({"above": 0.0, "at_most": 1.0}, [0.0, 1.1], " in (0, 1]"),
        ({"below": 1.0}, [1.0, -math.inf], " in (-inf, 1)"),
    ],
)
def test_a_number_outside_its_range_is_refused(bounds, outside, span):
    for value in outside:
        rule = re.escape(f"w: x must be a finite number{span}, got {value}")
        with pytest.raises(AttributeValueError, match=rule):
            checks.check_float("w", "x", value, **bounds)


BOUNDS = (-1e308, -1e300, -3.5, -0.01, 0.0, 1e-300, 0.05, 0.1, 1.0, 7.0, 1e16, 1e308)


def list_rules():
    """Yield every rule: no bound, one bound, or two bounds, each inclusive or exclusive."""
    yield {}
    for low in (None, *BOUNDS):
        for high in (None, *BOUNDS):
            if low is None or high is None or low < high:
                for lower in ("above", "at_least"):
                    for upper in ("below", "at_most"):
                        rule = {lower: low, upper: high}
                        yield {name: bound for name, bound in rule.items() if bound is not None}


def advice_of(check, value, **rule):
    """Return the value that the message of a check suggests, as Python reads it."""
    with pytest.raises((AttributeTypeError, AttributeValueError), match="write n=") as raised:
        check("w", "n", value, **rule)
    text = re.search(r"; write n=(.*?)(?: or n=(.*))?, for example$", str(raised.value))
    return [eval(each) for each in text.groups() if each is not None]


def test_a_suggested_number_satisfies_the_rule_of_its_message():
    for rule in list_rules():
        for value in ("1", math.nan):
            [number] = advice_of(checks.check_float, value, **rule)
            assert checks.check_float("w", "n", number, **rule) == number
    for low in (None, -5, 0, 1, 9):
        for high in (None, -3, 0, 1, 9):
            if low is None or high is None or low <= high:
                rule = {"at_least": low, "at_most": high}
                [number] = advice_of(checks.check_int, "1", **rule)
                assert checks.check_int("w", "n", number, **rule) == number


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("at_least", [-2, 0, 1, 3])
def test_suggested_sizes_satisfy_the_rule_of_their_message(rank, at_least):
    rule = {"rank": rank, "at_least": at_least}
    for value in ("1", [at_least - 1] * rank):
        for sizes in advice_of(checks.check_sizes, value, **rule):
            assert checks.check_sizes("w", "n", sizes, **rule)


def test_all_other_suggested_values_are_accepted():
    assert checks.check_paddings("w", 1, rank=2) == (1, 1, 1, 1)
    assert checks.check_shape("w", [None, 64]) == (-1, 64)
    assert checks.check_ints("w", "axis", [1, 2]) == [1, 2]
    choices = ("sgd", "adam")
    assert advice_of(checks.check_choice, 3, choices=choices)[0] in choices


HUGE = {"int": 10**400, "negative": -(10**400), "digits": 10**5000, "part": Fraction(10**5000, 3)}


@pytest.mark.parametrize("kind", sorted(HUGE))
def test_a_number_beyond_a_double_is_out_of_range_and_abbreviated_in_the_message(kind):
    with pytest.raises(AttributeValueError, match="w: x must be a finite number, got") as raised:
        checks.check_float("w", "x", HUGE[kind])
    assert len(str(raised.value)) < 700


def test_an_int_with_thousands_of_digits_is_refused_like_any_other_int():
    with pytest.raises(AttributeValueError, match=r"in \[0, 9\], got thousands of digits; write"):
        checks.check_int("w", "n", HUGE["digits"], at_least=0, at_most=9)


def test_a_range_is_printed_with_all_digits_of_its_bounds():
    with pytest.raises(AttributeValueError, match=r"in \[0.123456789, inf\), got 0.12345678;"):
        checks.check_float("w", "x", 0.12345678, at_least=0.123456789)


def test_only_bools_are_accepted_as_bools():
    assert checks.check_bool("w", "b", np.True_) is True
    assert checks.check_bool("w", "b", False) is False
    for value in (1, 0, "True", None, np.array([True])):
        with pytest.raises(AttributeTypeError, match="w: b must be True or False, got"):
            checks.check_bool("w", "b", value)


def test_empty_strings_are_refused():
    assert checks.check_str("w", "s", "a") == "a"
    with pytest.raises(AttributeTypeError, match="w: s must be a string, got 3"):
        checks.check_str("w", "s", 3)
    with pytest.raises(AttributeValueError, match="w: s must be a string that is not empty"):
        checks.check_str("w", "s", "")


def test_the_error_for_an_unknown_choice_suggests_the_nearest():
    assert checks.check_choice("w", "c", "sgd", ("adam", "sgd")) == "sgd"
    with pytest.raises(AttributeValueError, match="one of 'adam', 'sgd', got 'sdg'; did you mean"):
        checks.check_choice("w", "c", "sdg", ("adam", "sgd"))
    with pytest.raises(AttributeTypeError, match="w: c must be one of 'adam', 'sgd', got 3"):
        checks.check_choice("w", "c", 3, ("adam", "sgd"))


def test_unknown_dimensions_of_a_shape_become_minus_one():
    assert checks.check_shape("w", [None, -1, 0, np.int64(3)]) == (-1, -1, 0, 3)
    assert checks.check_shape("w", (dim for dim in (2, 3))) == (2, 3)
    assert checks.check_shape("w", np.array([2, 3])) == (2, 3)
    assert checks.check_shape("w", ()) == ()


@pytest.mark.parametrize("value", [3, "33", b"33", None, [2.0], ["2"], [True], [[2]]])
def test_a_value_that_is_not_a_shape_is_refused(value):
    with pytest.raises(AttributeTypeError, match="w: shape must be a list of ints of at least 0"):
        checks.check_shape("w", value)


def test_a_dimension_below_minus_one_is_refused():
    with pytest.raises(AttributeValueError, match=r"w: shape must be a list .* got \[2, -2\]"):
        checks.check_shape("w", [2, -2])


def test_a_single_int_becomes_a_list():
    assert checks.check_ints("w", "axis", 3) == [3]
    assert checks.check_ints("w", "axis", np.array([1, 2])) == [1, 2]
    with pytest.raises(AttributeTypeError, match=r"w: axis\[1\] must be an int, got 2.5"):
        checks.check_ints("w", "axis", [1, 2.5])
    for value in ("12", b"12", None, 2.5):
        with pytest.raises(AttributeTypeError, match="w: axis must be a list of ints, got"):
            checks.check_ints("w", "axis", value)


def test_dtypes_become_canonical_names():
    assert checks.check_dtype("w", np.float32) == "float32"
    with pytest.raises(DtypeError, match="^w: .*float33.*did you mean 'float32'"):
        checks.check_dtype("w", "float33")


def test_instances_must_have_the_class_or_be_none():
    checks.check_instance("w", "i", None, int)
    checks.check_instance("w", "i", 3, int, required=True)
    with pytest.raises(AttributeTypeError, match="w: i must be an int or None, got 'a'"):
        checks.check_instance("w", "i", "a", int)
    with pytest.raises(AttributeTypeError, match="w: i must be a str, got None"):
        checks.check_instance("w", "i", None, str, required=True)
