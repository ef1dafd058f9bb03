"""Provides a world of two processes without a connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

import opwright as ow
import opwright_dist as dist


class Two(dist.Engine):
    """Simulates two processes without connecting them."""

    name = "two"

    def __init__(self) -> None:
        self.added: list[tuple[str, tuple[int, ...]]] = []
        self.deadline_s = 0.0

    @classmethod
    def was_launched(cls) -> bool:
        return False

    @property
    def rank(self) -> int:
        return 1

    @property
    def size(self) -> int:
        return 2

    def add_group(self, name: str, ranks: Sequence[int]) -> None:
        self.added.append((name, tuple(ranks)))

    def gather(self, data: bytes, group: str) -> list[bytes]:
        return [data, data]

    def set_deadline(self, seconds: float) -> None:
        self.deadline_s = seconds

    def describe(self) -> str:
        return "two processes"


@pytest.fixture
def two() -> Iterator[Two]:
    engine = Two()
    before = dist.set_world(dist.World(engine, deadline_s=5))
    with ow.context_guard(ow.Context.discover()):  # with kernels prepared for this world
        yield engine
    dist.set_world(before)
