"""Parallel work of a plugin, in hosts that provide threads and in older hosts."""

from __future__ import annotations

import ctypes as c

import numpy as np
import pytest
from abi_tables import ERROR, Host, Parallel
from plugin_host import FailedError, Library, Step

N = 5


@pytest.fixture(scope="module")
def opened(compiler):
    """The plugin library, which keeps using the first host that opens it."""
    return Library(compiler.build("parallel.cc"))


@pytest.fixture
def library(opened):
    """The plugin in a host of version 1.0, which provides no threads."""
    opened.host.size = Host.parallel.offset
    return opened


@pytest.fixture
def calls(library):
    """The calls that the plugin makes to a host of version 1.1, which runs the last share first."""
    asked = []

    def parallel(n_threads, n_shares, function, data):
        asked.append((n_threads, n_shares))
        for share in reversed(range(n_shares)):
            function(data, share)

    library.host.parallel = Parallel(parallel)
    library.host.size = c.sizeof(Host)
    return asked


def run_shares(library, fails=N):
    x, out = np.arange(float(N)), np.zeros(N)
    step = Step(library, library.kernel("test.shares", "float64"), [x], [out], {"fails": fails})
    try:
        step.run()
    finally:
        step.close()
    return out


def test_a_host_runs_every_share_once(library, calls):
    np.testing.assert_array_equal(run_shares(library), np.arange(N) + 1.0)
    assert calls == [(3, N)]


def test_in_a_host_without_threads_the_caller_runs_all_shares(library):
    np.testing.assert_array_equal(run_shares(library), np.arange(N) + 1.0)


def test_the_error_message_contains_the_exception_of_a_share(library, calls):
    with pytest.raises(FailedError, match="share 4 failed") as caught:
        run_shares(library, fails=3)
    assert caught.value.code == ERROR
    assert len(calls) == 1
