"""Watch detects whether a call has the same, unchanged arguments as an earlier call."""

from __future__ import annotations

import pytest

from opwright.errors import FeedError
from opwright.runtime import Watch


class Counted:
    """An object whose version number is a plain attribute."""

    def __init__(self) -> None:
        self.version = 0


class Computed:
    """An object whose version number is a property."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def version(self) -> int:
        return self.count


@pytest.fixture(params=[Counted, Computed])
def args(request: pytest.FixtureRequest) -> tuple[object, ...]:
    return tuple(request.param() for _ in range(4))


def test_unchanged_objects_are_recognized(args: tuple[object, ...]) -> None:
    assert Watch(args, [0, 2], "version").is_same(args)


def test_a_different_object_at_a_watched_position_is_detected(args: tuple[object, ...]) -> None:
    watch = Watch(args, [0, 2], "version")
    assert not watch.is_same((args[1], *args[1:]))
    assert watch.is_same((args[0], args[3], args[2], args[1]))


def test_a_new_version_number_of_a_watched_argument_is_detected() -> None:
    args = tuple(Counted() for _ in range(3))
    watch = Watch(args, [0, 1], "version")
    args[2].version = 1
    assert watch.is_same(args)
    args[1].version = 1
    assert not watch.is_same(args)


def test_version_numbers_of_different_classes_are_read() -> None:
    args = (Counted(), Computed(), 1.5, Counted())
    watch = Watch(args, range(4), "version")
    assert watch.is_same(args)
    args[1].count = 3
    assert not watch.is_same(args)


def test_a_call_with_fewer_arguments_is_detected(args: tuple[object, ...]) -> None:
    assert not Watch(args, [3], "version").is_same(args[:2])


def test_a_position_beyond_the_arguments_raises(args: tuple[object, ...]) -> None:
    with pytest.raises(FeedError, match="Watch: positions must be below 4, got 4"):
        Watch(args, [4], "version")
