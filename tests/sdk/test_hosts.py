"""A current plugin library runs in hosts with an earlier, the same, and a later version."""

from __future__ import annotations

import ctypes as c
import shutil

import numpy as np
import pytest
from abi_tables import REFUSED, UNSUPPORTED, Host, Parallel
from plugin_host import FailedError, Library, Step

N = 5
# The size of the host table, and its minor version. Plugins must not read later fields.
HOSTS = {"1.0": (Host.parallel.offset, 0), "1.1": (c.sizeof(Host), 1), "1.2": (1024, 2)}


@pytest.fixture(scope="module")
def opened(compiler, tmp_path_factory):
    """A separate copy of the plugin, since a library keeps using the first host that opens it."""
    path = tmp_path_factory.mktemp("hosts") / "plugin.so"
    shutil.copy(compiler.build("parallel.cc"), path)
    return Library(path)


@pytest.fixture(params=HOSTS)
def library(opened, request):
    """The plugin in each host; the hosts record the calls that they receive."""
    opened.asked = []

    def parallel(n_threads, n_shares, function, data):
        opened.asked.append((n_threads, n_shares))
        for share in range(n_shares):
            function(data, share)

    opened.version = request.param
    opened.host.size, opened.host.abi_minor = HOSTS[request.param]
    opened.host.parallel = Parallel(parallel)  # beyond the end of the table in version 1.0
    return opened


def make_step(library, fails):
    x, out = np.arange(float(N)), np.zeros(N)
    kernel = library.kernel("test.shares", "float64")
    return Step(library, kernel, [x], [out], {"fails": fails}), out


def test_a_library_uses_the_threads_that_each_host_provides(library):
    step, out = make_step(library, fails=N)
    step.run()
    step.close()
    np.testing.assert_array_equal(out, np.arange(N) + 1.0)
    assert library.asked == ([] if library.version == "1.0" else [(3, N)])


def test_an_older_host_treats_an_unsupported_processor_as_a_refusal(library):
    with pytest.raises(FailedError, match="a processor with 7 units is needed") as caught:
        make_step(library, fails=-7)
    assert caught.value.code == (REFUSED if library.version == "1.0" else UNSUPPORTED)
