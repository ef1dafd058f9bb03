"""Names in ``opwright.ops`` refer to the Context of the current thread or task."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import importlib
import subprocess
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import opwright as ow
from opwright import Context, context_guard
from opwright.errors import AttributeValueError, OperatorNotFoundError
from opwright.op import OpMaker, no_gradient, same_shape_as
from opwright.packages import Package

STD = Package("std", "opwright-std", "1.0")
ACME = Package("acme", "opwright-acme", "1.0")
X = np.zeros(2, np.float32)


def context_of(value):
    """Return a Context whose operators ``probe`` and ``acme.probe`` write `value`."""
    context = Context()

    def fill(x, out):
        out.fill(value)

    for type, package in [("probe", STD), ("acme.probe", ACME)]:
        maker = OpMaker(type).add_comment("A probe.").add_input("x", "any shape")
        maker.add_output("out", "as x").same_dtype_as("x")
        definition = maker.build(same_shape_as("x"), no_gradient("a constant"))
        context.ops.add(type, definition, package)
        context.kernels.add(
            type, device="cpu", dtypes="*", kernel=fill, library="toy", package=package
        )
    return context


def test_a_name_refers_to_the_guarded_context():
    with context_guard(context_of(1)):
        assert ow.ops.probe(X)[0] == 1
        outer = ow.ops.probe
        with context_guard(context_of(2)):
            assert ow.ops.probe(X)[0] == 2
            assert outer(X)[0] == 1
        assert ow.ops.probe is outer
        assert ow.ops.acme.probe(X)[0] == 1
        with pytest.raises(OperatorNotFoundError, match="softmax"):
            _ = ow.ops.softmax
    assert not hasattr(ow.ops, "probe")
    assert ow.ops.softmax(X)[0] == 0.5


def test_a_namespace_assigned_to_a_name_also_follows_the_guard():
    with context_guard(context_of(1)):
        acme = ow.ops.acme
        assert acme.probe(X)[0] == 1
    with context_guard(context_of(2)):
        assert acme.probe(X)[0] == 2
    with pytest.raises(OperatorNotFoundError, match="acme.probe"):
        _ = acme.probe


def test_threads_with_their_own_guards_use_their_own_contexts():
    contexts = [context_of(value) for value in range(6)]
    wrong, barrier = [], threading.Barrier(len(contexts) + 1)

    def look(value):
        with context_guard(contexts[value]):
            barrier.wait()
            for _ in range(200):
                found = ow.ops.probe(X)[0], ow.ops.acme.probe(X)[0]
                if found != (value, value):
                    wrong.append((value, found))

    def look_outside():
        barrier.wait()
        for _ in range(2000):
            if hasattr(ow.ops, "probe") or ow.ops.softmax(X)[0] != 0.5:
                wrong.append("outside")

    threads = [threading.Thread(target=look, args=[value]) for value in range(len(contexts))]
    threads.append(threading.Thread(target=look_outside))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_task_keeps_the_guard_under_which_it_was_created():
    async def probe():
        await asyncio.sleep(0)
        return ow.ops.probe(X)[0]

    async def main():
        with context_guard(context_of(1)):
            task = asyncio.create_task(probe())
        with context_guard(context_of(2)):
            return await task, ow.ops.probe(X)[0]

    assert asyncio.run(main()) == (1, 2)
    with context_guard(context_of(3)):
        copied = contextvars.copy_context()
    assert not hasattr(ow.ops, "probe")
    assert copied.run(lambda: ow.ops.probe(X)[0]) == 3


def test_a_known_name_is_looked_up_without_python(monkeypatch):
    with context_guard(context_of(1)):
        first = ow.ops.probe
        found = []
        monkeypatch.setitem(ow.ops.__dict__, "__getattr__", found.append)
        assert ow.ops.probe is first
        assert not found
        with context_guard(context_of(2)):
            _ = ow.ops.probe
        assert found == ["probe"]


def test_a_pin_takes_effect_at_the_next_call():
    context = context_of(1)

    def other(x, out):
        out.fill(9)

    context.kernels.add(
        "probe", device="cpu", dtypes="*", kernel=other, library="other", package=STD, priority=9
    )
    with context_guard(context):
        assert ow.ops.probe(X)[0] == 1
        probe = ow.ops.probe
        context.pin("probe", "other")
        assert probe(X)[0] == ow.ops.probe(X)[0] == 9
        context.unpin("probe")
        assert probe(X)[0] == ow.ops.probe(X)[0] == 1


def test_operators_are_looked_up_again_after_a_refresh():
    context = Context.discover()
    with context_guard(context):
        before, inner = ow.ops.softmax, ow.ops.relu
        context.pin("softmax", "numpy")
        assert ow.ops.softmax is before
        context.refresh()
        assert ow.ops.softmax is not before
        assert ow.ops.relu is not inner
        assert ow.ops.softmax(X)[0] == 0.5


def test_the_namespace_keeps_only_the_most_recently_used_context_alive():
    alive = []
    for value in range(4):
        context = context_of(value)
        with context_guard(context):
            assert ow.ops.probe(X)[0] == value
        alive.append(weakref.ref(context))
    del context
    gc.collect()
    assert sum(ref() is not None for ref in alive) <= 1


def test_the_first_operator_of_a_process_does_not_search_for_similar_names():
    code = "import sys, opwright\nopwright.ops.add\nassert 'difflib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="did you mean 'Network'"):
        _ = ow.Netwrk


def test_the_first_operator_of_a_process_does_not_import_masked_arrays():
    code = (
        "import sys, numpy as np, opwright as ow\n"
        "ow.ops.relu(np.ones(3, 'float32'))\n"
        "assert 'numpy.ma' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_process_loads_only_the_kernels_that_it_looks_up():
    code = (
        "import gc, numpy as np, opwright as ow\n"
        "from opwright.targets.native_kernel import NativeKernel\n"
        "ow.ops.relu(np.ones(3, 'float32'))\n"
        "kernels = [x for x in gc.get_objects() if type(x) is NativeKernel]\n"
        "assert {kernel.op_type for kernel in kernels} == {'relu'}, kernels"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_namespace_is_a_module():
    assert isinstance(ow.ops, types.ModuleType)
    assert importlib.import_module("opwright.ops") is ow.ops
    assert ow.ops.__name__ == "opwright.ops"
    assert "every discovered operator" in ow.ops.__doc__
    assert {"softmax", "add"} <= set(dir(ow.ops))
    with pytest.raises(AttributeError, match="has no attribute '__nothing__'"):
        _ = ow.ops.__nothing__
    with context_guard(context_of(1)):
        assert dir(ow.ops.acme) == ["probe"]
        assert repr(ow.ops.acme) == "<module 'opwright.ops.acme'>"


@pytest.mark.parametrize("table", [(), (1, 2, 3), ("a", None, {}), {}])
def test_an_invalid_table_does_not_crash(table):
    module = ow.ops.__class__("strange")
    module.__dict__["__table__"] = table
    with pytest.raises((AttributeError, TypeError)):
        _ = module.anything


def test_attributes_can_have_the_names_used_in_generated_functions():
    context = Context()
    maker = OpMaker("acme.odd").add_comment("Has an attribute for each word of a function.")
    maker.add_input("x", "any shape").add_output("out", "as x").same_dtype_as("x")
    for name in ("call", "extend", "unknown", "inf"):
        maker.add_attr(name, str, "a text").default("")
    definition = maker.build(same_shape_as("x"), no_gradient("a text"))
    context.ops.add("acme.odd", definition, ACME)

    def join(x, out, *, call, extend, unknown, inf):
        out.fill(len(call + extend + unknown + inf))

    context.kernels.add(
        "acme.odd", device="cpu", dtypes="*", kernel=join, library="toy", package=ACME
    )
    with context_guard(context):
        words = {"call": "a", "extend": "bb", "unknown": "ccc", "inf": "dddd"}
        assert ow.ops.acme.odd(X, **words)[0] == 10
        with pytest.raises(AttributeValueError, match="unknown slot or attribute, got 'UNKNOWN'"):
            ow.ops.acme.odd(X, UNKNOWN=1)
