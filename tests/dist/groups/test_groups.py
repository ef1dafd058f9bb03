"""Tests worlds and groups, and errors for invalid groups."""

from __future__ import annotations

from typing import Any

import pytest

import opwright_dist as dist


def test_without_a_launcher_there_is_one_process() -> None:
    assert (dist.rank(), dist.size()) == (0, 1)
    assert dist.gather(b"mine") == [b"mine"]


def test_a_group_has_its_members_in_the_order_given(two: Any) -> None:
    group = dist.new_group("reversed", [1, 0])
    assert (group.rank, group.size) == (0, 2)
    assert two.added == [("reversed", (1, 0))]
    assert (dist.rank("reversed"), dist.rank()) == (0, 1)


def test_the_rank_of_a_process_outside_a_group_is_minus_1(two: dist.Engine) -> None:
    assert dist.new_group("first", [0]).rank == -1


def test_set_deadline_sets_the_deadline_of_the_engine(two: Any) -> None:
    assert two.deadline_s == 5
    dist.set_deadline(0.5)
    assert two.deadline_s == 0.5


@pytest.mark.parametrize(
    ("name", "ranks", "rule"),
    [
        ("world", [0], "new_group: the name must be new, got 'world', which already exists"),
        ("none", [], r"ranks must be one or more distinct numbers, got \[\]"),
        ("twice", [1, 1], r"ranks must be one or more distinct numbers, got \[1, 1\]"),
        ("far", [0, 2], r"ranks must be in \[0, 2\), got 2; there are 2 processes"),
    ],
)
def test_invalid_group_members_are_refused(
    two: dist.Engine, name: str, ranks: list[int], rule: str
) -> None:
    with pytest.raises(dist.DistError, match=rule):
        dist.new_group(name, ranks)


def test_the_error_for_an_unknown_group_suggests_the_nearest(two: dist.Engine) -> None:
    with pytest.raises(dist.DistError, match=r"unknown group, got 'wolrd'.*'world'.*new_group"):
        dist.size("wolrd")


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_an_invalid_deadline_is_refused(two: dist.Engine, seconds: float) -> None:
    with pytest.raises(dist.DistError, match="a finite number of seconds above 0, got"):
        dist.set_deadline(seconds)


def test_an_invalid_deadline_in_the_environment_is_refused(
    monkeypatch: pytest.MonkeyPatch, two: dist.Engine
) -> None:
    monkeypatch.setenv("OPWRIGHT_DIST_DEADLINE", "soon")
    with pytest.raises(dist.DistError, match="OPWRIGHT_DIST_DEADLINE must be a number of seconds"):
        dist.World(two)


def test_the_error_for_a_missing_engine_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = dist.set_world(None)
    monkeypatch.setenv("OPWRIGHT_DIST_ENGINE", "carrier_pigeon")
    try:
        with pytest.raises(dist.DistError, match="pip install opwright-carrier_pigeon"):
            dist.rank()
    finally:
        dist.set_world(before)


def test_the_error_for_gathering_in_an_unknown_group_lists_the_known_groups(two) -> None:
    with pytest.raises(dist.DistError, match="gather: unknown group, got 'word'; did you mean"):
        dist.gather(b"", "word")
