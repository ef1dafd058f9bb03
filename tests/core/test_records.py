"""Named tuples of the core behave like `typing.NamedTuple`."""

from __future__ import annotations

import copy
import pickle
import re
import sys
import typing

import pytest

from opwright import records


class Ours(records.NamedTuple):
    """What it is."""

    first: int
    second: str = "two"

    @property
    def both(self) -> str:
        return f"{self.first} {self.second}"


class Theirs(typing.NamedTuple):
    """What it is."""

    first: int
    second: str = "two"


def test_a_record_has_the_fields_and_defaults_of_a_named_tuple():
    for name in ("_fields", "_field_defaults", "__doc__", "__module__"):
        assert getattr(Ours, name) == getattr(Theirs, name)
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert Ours(1) == Theirs(1) == (1, "two")
    assert repr(Ours(1)) == "Ours(first=1, second='two')"


def test_a_record_has_its_methods_and_can_be_pickled():
    again = pickle.loads(pickle.dumps(Ours(3)._replace(second="four")))
    assert type(again) is Ours
    assert again.both == "3 four"


def test_a_record_refuses_the_same_definitions_as_a_named_tuple():
    for made in (Ours, Theirs):
        with pytest.raises(ValueError, match=re.escape("Got unexpected field names: ['third']")):
            made(1)._replace(third=3)
        with pytest.raises(TypeError, match="Expected 2 arguments, got 3"):
            made._make((1, 2, 3))
        missing = f"{made.__name__}.__new__() missing 1 required positional argument: 'first'"
        with pytest.raises(TypeError, match=re.escape(missing)):
            made(second="four")


def test_a_record_is_a_tuple_without_other_attributes():
    assert Ours(1)._asdict() == {"first": 1, "second": "two"}
    assert [*Ours(1)] == [1, "two"]
    assert not hasattr(Ours(1), "__dict__")
    with pytest.raises(AttributeError, match="readonly|can't set"):
        Ours(1).first = 2


def test_the_fields_of_a_record_are_matched_by_position():
    match Ours(1):
        case Ours(first, second):
            assert (first, second) == (1, "two")
        case _:
            pytest.fail("no match")
    assert Ours.__match_args__ == Theirs.__match_args__


@pytest.mark.skipif(sys.version_info < (3, 13), reason="copy.replace needs Python 3.13")
def test_copy_replaces_fields_of_a_record():
    assert copy.replace(Ours(1), second="four") == (1, "four")


def test_a_record_without_fields_works():
    class Empty(records.NamedTuple):
        pass

    assert Empty() == ()
    assert repr(Empty()) == "Empty()"
