"""The default Context, guards, pins, and the epoch that invalidates plans."""

from __future__ import annotations

import threading

import pytest

from opwright import Context, context_guard, current_context
from opwright.errors import KernelNotFoundError, OperatorNotFoundError
from swish_operators import ACME, SWISH, swish


@pytest.fixture
def context():
    made = Context()
    made.ops.add("acme.swish", SWISH, ACME)
    for library, priority in (("fast", 60), ("slow", 50)):
        made.kernels.add(
            "acme.swish",
            device="cpu",
            dtypes="*",
            kernel=swish,
            library=library,
            priority=priority,
            package=ACME,
        )
    return made


def order(context):
    return [entry.library for entry in context.candidates("acme.swish", "cpu", "float32")]


def test_a_guard_replaces_the_context_and_restores_it(context):
    other = Context()
    with context_guard(context) as inner:
        assert inner is current_context() is context
        with context_guard(other):
            assert current_context() is other
        assert current_context() is context
    assert current_context() not in {context, other}


def test_a_guard_restores_the_context_after_an_error(context):
    with pytest.raises(ZeroDivisionError, match="by zero"), context_guard(context):
        _ = 1 / 0
    assert current_context() is not context


def test_a_guard_affects_only_its_own_thread(context):
    seen = []
    with context_guard(context):
        thread = threading.Thread(target=lambda: seen.append(current_context()))
        thread.start()
        thread.join()
    assert seen[0] is not context
    assert seen[0] is current_context()


def test_the_default_context_is_created_once():
    assert current_context() is current_context()


def test_a_pin_takes_effect_immediately_and_persists(context):
    context.pin("acme.swish", "slow")
    assert order(context) == ["slow"]
    assert dict(context.pins) == {"acme.swish": "slow"}
    context.unpin("acme.swish")
    assert order(context) == ["fast", "slow"]


def test_a_pin_used_as_a_context_manager_ends_with_its_block(context):
    context.pin("*", "slow")
    with context.pin("*", "fast"), context.pin("acme.swish", "slow"):
        assert order(context) == ["slow"]
    assert dict(context.pins) == {"*": "slow"}
    assert order(context) == ["slow", "fast"]


def test_a_pin_to_an_unknown_library_raises(context):
    with pytest.raises(KernelNotFoundError, match=r"got 'fats'; did you mean 'fast'\?"):
        context.pin("acme.swish", "fats")
    with pytest.raises(OperatorNotFoundError, match="acme.swoosh"):
        context.pin("acme.swoosh", "fast")
    assert dict(context.pins) == {}


def test_pins_cannot_be_changed_directly(context):
    with pytest.raises(TypeError, match="does not support item assignment"):
        context.pins["*"] = "slow"


def test_a_context_with_different_pins_shares_all_other_state(context):
    twin = context.with_pins({"acme.swish": "slow"})
    assert (order(twin), order(context)) == (["slow"], ["fast", "slow"])
    assert twin.ops is context.ops
    assert twin.prepared is context.prepared
    with pytest.raises(KernelNotFoundError, match="'gone'"):
        context.with_pins({"*": "gone"})


def test_a_change_that_affects_plans_advances_the_epoch_of_all_contexts_with_the_same_registries(
    context,
):
    twin = context.with_pins({"*": "slow"})
    seen = [context.epoch.now]

    def has_advanced():
        seen.append(context.epoch.now)
        assert twin.epoch.now == context.epoch.now
        return seen[-1] > seen[-2]

    assert not has_advanced()
    with context.pin("*", "slow"):
        assert has_advanced()
    assert has_advanced()
    context.passes.add("fold", phase="fuse", function=print, package=ACME)
    assert has_advanced()
    context.refresh()
    assert has_advanced()
    other = Context().epoch.now
    context.unpin("*")
    assert has_advanced()
    assert Context().epoch.now == other


@pytest.mark.parametrize("room", ["ops", "kernels", "devices", "passes"])
def test_an_addition_to_any_registry_advances_the_epoch(context, room):
    add = {
        "ops": lambda: context.ops.add("acme.new", "m:A", ACME),
        "kernels": lambda: context.kernels.add(
            "x", device="cpu", dtypes="*", kernel="m:k", library="l", package=ACME
        ),
        "devices": lambda: context.devices.add("npu", "m:d", ACME),
        "passes": lambda: context.passes.add("p", phase="fuse", function="m:p", package=ACME),
    }
    before = context.epoch.now
    add[room]()
    assert context.epoch.now == before + 1


def test_a_fresh_context_is_empty():
    context = Context()
    assert context.ops.types(all=True) == []
    assert context.kernels.op_types() == []
    assert context.devices.names() == ["cpu"]
    assert context.failures == ()
    assert context.records == ()


def test_discovery_with_given_paths_finds_the_plugins_there(site, monkeypatch):
    site.add("faraway")
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(site.cache))
    monkeypatch.syspath_prepend(str(site.folder))
    context = Context.discover([str(site.folder)])
    assert context.ops.types() == ["faraway.swish"]
    assert context.report.index_state == "written"
    site.add("further")
    before = context.epoch.now
    context.refusals["something"] = "old"
    context.refresh()
    assert context.ops.types() == ["faraway.swish", "further.swish"]
    assert context.epoch.now > before
    assert context.refusals == {}
