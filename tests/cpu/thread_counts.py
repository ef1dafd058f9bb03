"""Creates fixtures for the number of threads."""

from __future__ import annotations

from typing import Any

import pytest

import opwright as ow


def thread_counts(*counts: int, autouse: bool = False) -> Any:
    """Return a fixture that sets each of `counts`, and passes it to the test."""

    @pytest.fixture(params=counts, autouse=autouse)
    def n_threads(request: pytest.FixtureRequest) -> int:
        ow.set_num_threads(request.param)
        return request.param

    return n_threads
