"""A library is opened once, and stays open until the process exits."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import opwright as ow
from opwright import Context, _runtime, context_guard
from opwright.errors import PluginError
from opwright.op import dtype_to_code

F64 = dtype_to_code("float64")


def is_mapped(path):
    """Return whether a file is mapped into this process."""
    gc.collect()
    with open("/proc/self/maps") as file:
        return str(path) in file.read()


def prepare(library):
    address = library.kernels[0][0]
    metas = [[((3,), F64)]]
    attrs = [("factor", 2, 3.0)]
    return _runtime.prepare_native(address, attrs, metas, metas, keep_alive=library)


@pytest.fixture
def copy(plain_library, tmp_path):
    """A copy of the library file."""
    return shutil.copy(plain_library, tmp_path / "libown.so")


def test_two_paths_to_one_file_are_one_library(copy, tmp_path):
    (tmp_path / "symbolic.so").symlink_to(copy)
    os.link(copy, tmp_path / "hard.so")
    library = _runtime.Library(str(copy))
    for name in ("symbolic.so", "hard.so"):
        other = _runtime.Library(str(tmp_path / name))
        assert other.kernels == library.kernels  # including addresses
        assert other.path == str(copy)


def test_two_files_with_the_same_content_are_two_libraries(copy, tmp_path):
    library = _runtime.Library(str(copy))
    other = _runtime.Library(str(shutil.copy(copy, tmp_path / "other.so")))
    assert other.kernels[0][0] != library.kernels[0][0]


def test_a_library_without_users_stays_open(copy):
    library = _runtime.Library(str(copy))
    addresses = library.kernels
    del library
    assert is_mapped(copy)
    assert _runtime.Library(str(copy)).kernels == addresses


THREADED = """
import gc, time
from opwright import _runtime
library = _runtime.Library({path!r})
del library
gc.collect()
time.sleep(0.2)
print("lives")
"""


def test_threads_of_a_library_without_users_keep_running(compiler):
    path = str(compiler.build("threaded.cc"))
    assert compiler.run(sys.executable, "-c", THREADED.format(path=path)).strip() == "lives"


def test_a_plan_keeps_its_library_usable(copy):
    library = _runtime.Library(str(copy))
    builder = _runtime.PlanBuilder(_runtime.host_device(), "plan")
    x = builder.value(F64, (3,), _runtime.EXTERNAL, builder.external(_runtime.PERSISTABLE, "x"))
    external = builder.external(_runtime.PERSISTABLE, "y", create=True)
    y = builder.value(F64, (3,), _runtime.EXTERNAL, external)
    builder.kernel(prepare(library), (x, y), (0, 1, 2), 1, 0)
    builder.writes(["y"])
    plan = builder.build(None)
    del library, builder
    scope = ow.Scope()
    scope.var("x").set(np.arange(3.0))
    plan.run(scope)
    np.testing.assert_array_equal(scope.find_var("y").numpy(), 3 * np.arange(3.0))


def test_a_compiled_network_outlives_its_context(acme, plain_library, monkeypatch):
    path = acme.install(plain_library)
    monkeypatch.syspath_prepend(str(acme.site))
    context = Context.discover()
    program = ow.Program()
    with context_guard(context):
        with ow.program_guard(program, ow.Program()):
            x = program.global_block().create_var("x", shape=[3], dtype="float64")
            y = ow.ops.acme.scale(x)
        run = ow.Network(program.global_block()).compile(feed=["x"], fetch=[y.name])
        run(x=np.ones(3))
    assert is_mapped(path)
    context.refresh()  # drops prepared kernels
    np.testing.assert_array_equal(run(x=np.ones(3))[0], np.full(3, 2.0))


def test_a_file_that_replaced_an_open_file_is_refused(copy, tmp_path, compiler):
    library = _runtime.Library(str(copy))
    shutil.copy(compiler.build("throwing.cc"), tmp_path / "new.so").replace(copy)
    with pytest.raises(PluginError, match="got another file in its place; start a new process"):
        _runtime.Library(str(copy))
    del library  # the loader returns the code that is still loaded for any file of this name
    gc.collect()
    with pytest.raises(PluginError, match="got another file in its place; start a new process"):
        _runtime.Library(str(copy))


def test_many_threads_open_a_library_once(copy):
    barrier = threading.Barrier(8)

    def open_often(_):
        barrier.wait()
        for _ in range(50):
            library = _runtime.Library(str(copy))
            assert prepare(library).workspace_bytes == 0
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(open_often, range(8)))
