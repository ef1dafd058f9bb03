"""Positional calls of an EagerFunction skip argument binding in Python; other calls use it."""

from __future__ import annotations

import gc
import weakref

import pytest

from opwright import _runtime as rt


class Recorded:
    """Records the arguments of all calls of an EagerFunction with two inputs and an attribute."""

    def __init__(self, defaults=("no x", "no y", 0.5), n_positional=2):
        self.calls = []
        self.function = rt.EagerFunction(self.call, self.bind, defaults, n_positional)

    def call(self, *args):
        self.calls.append(("call", args))
        return "called"

    def bind(self, *args, **kwargs):
        self.calls.append(("bind", args, kwargs))
        return "bound"


@pytest.mark.parametrize(
    ("given", "completed"),
    [((), ("no x", "no y", 0.5)), ((1,), (1, "no y", 0.5)), ((1, 2), (1, 2, 0.5))],
)
def test_positional_calls_are_completed_with_the_defaults(given, completed):
    recorded = Recorded()
    assert recorded.function(*given) == "called"
    assert recorded.calls == [("call", completed)]


def test_calls_with_keywords_or_too_many_arguments_are_passed_to_bind():
    recorded = Recorded()
    assert recorded.function(1, y=2) == "bound"
    assert recorded.function(1, 2, 3) == "bound"
    assert recorded.calls == [("bind", (1,), {"y": 2}), ("bind", (1, 2, 3), {})]


def test_calls_of_functions_with_many_parameters_are_passed_to_bind():
    recorded = Recorded(defaults=tuple(range(40)))
    assert recorded.function(1, 2) == "bound"


def test_errors_of_positional_and_keyword_calls_are_raised():
    def fail(*args, **kwargs):
        raise KeyError(kwargs.get("name", "by position"))

    function = rt.EagerFunction(fail, fail, (None,), 1)
    with pytest.raises(KeyError, match="by position"):
        function(1)
    with pytest.raises(KeyError, match="by name"):
        function(name="by name")


def test_more_positional_arguments_than_parameters_are_refused():
    with pytest.raises(ValueError, match=r"n_positional must be in \[0, 1\], got 2"):
        rt.EagerFunction(print, print, (None,), 2)
    with pytest.raises(TypeError, match="tuple"):
        rt.EagerFunction(print, print, [None], 1)


def test_a_cycle_through_a_function_is_collected():
    recorded = Recorded()
    gone = weakref.ref(recorded)
    del recorded
    gc.collect()
    assert gone() is None
