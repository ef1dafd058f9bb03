"""The number of threads as a fixture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import opwright as ow


def thread_counts(*counts: int, autouse: bool = False) -> Any:
    """Return a fixture that sets each of `counts` in turn, gives it to the test, and undoes it."""

    @pytest.fixture(params=counts, autouse=autouse)
    def n_threads(request: pytest.FixtureRequest) -> Iterator[int]:
        before = ow.get_num_threads()
        ow.set_num_threads(request.param)
        yield request.param
        ow.set_num_threads(before)

    return n_threads
