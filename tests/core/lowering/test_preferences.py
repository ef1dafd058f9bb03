"""Kernels declare the attribute values with which they are fastest, and passes query them."""

from __future__ import annotations

import pytest

from opwright import context_guard

from .toy_graphs import TOY, graph_of, make_toy, op


class Scales:
    """Adds kernels of ``toy.scale`` and records which of them were prepared."""

    def __init__(self, context):
        self._context = context
        self.prepared = []
        context.ops.add("toy.scale", make_toy("toy.scale", ["x"]), TOY)

    def add(self, library, priority, refuses=False, **said):
        scales = self

        class Kernel:
            @staticmethod
            def prepare(ctx):
                scales.prepared.append(library)
                if refuses:
                    ctx.refuse("never")
                return lambda x, out: None

        key = {"device": "cpu", "dtypes": ["float32"], "library": library, "package": TOY}
        self._context.kernels.add("toy.scale", kernel=Kernel, priority=priority, **key, **said)


@pytest.fixture
def scales(context):
    return Scales(context)


def ask(factor=2.0):
    """Return whether a kernel prefers this factor, and the library chosen for the operator."""
    graph = graph_of([op("toy.scale", "out", "x", factor=factor)])
    (scale,) = graph.ops
    return graph.has_preferring_kernel(scale, "factor"), scale.entry and scale.entry.library


BEST = {"prefers": {"factor": 2.0}}


def test_the_kernel_that_would_run_is_queried_and_chosen(scales):
    scales.add("best", 60, **BEST)
    scales.add("plain", 50)
    assert ask() == (True, "best")
    assert scales.prepared == ["best"]


def test_kernels_that_prefer_other_values_are_not_prepared(scales):
    scales.add("best", 60, **BEST)
    assert ask(factor=3.0) == (False, None)
    assert scales.prepared == []


def test_kernels_without_preferences_are_not_prepared(scales):
    scales.add("plain", 50)
    assert ask() == (False, None)
    assert scales.prepared == []


def test_kernels_after_the_last_kernel_that_prefers_the_value_are_not_prepared(scales):
    scales.add("best", 60, refuses=True, **BEST)
    scales.add("plain", 50)
    assert ask() == (False, None)
    assert scales.prepared == ["best"]


def test_the_preference_of_a_later_kernel_is_ignored(scales):
    scales.add("plain", 60)
    scales.add("best", 50, **BEST)
    assert ask() == (False, None)
    assert scales.prepared == ["plain"]


def test_a_later_kernel_is_chosen_if_all_earlier_kernels_refuse(scales):
    scales.add("plain", 60, refuses=True)
    scales.add("best", 50, **BEST)
    assert ask() == (True, "best")


def test_a_pin_to_another_library_excludes_the_kernel_with_the_preference(scales, context):
    scales.add("best", 60, **BEST)
    scales.add("plain", 50)
    with context_guard(context.with_pins({"toy.scale": "plain"})):
        assert ask() == (False, None)
