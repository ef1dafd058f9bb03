"""A placement names kernels of higher priority that refused, and their reasons."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelError

from .toy_graphs import TOY, make_toy

X = np.arange(4, dtype=np.float32)


WORKED_WITH = weakref.WeakSet()
"""Weak references to objects that a kernel created during preparation."""


class Picky:
    """A kernel that refuses negative factors."""

    @staticmethod
    def prepare(ctx):
        tool = type("Tool", (), {})()
        WORKED_WITH.add(tool)
        if ctx.attrs["factor"] < 0:
            ctx.refuse(f"takes no factor below 0, got {ctx.attrs['factor']}")
        return lambda x, out: np.multiply(x, ctx.attrs["factor"], out=out)


@pytest.fixture
def scales(context):
    context.ops.add("toy.scale", make_toy("toy.scale", ["x"]), TOY)
    kernels = {
        "picky": (Picky, 60),
        "plain": (lambda x, out, *, factor: np.multiply(x, factor, out=out), 50),
    }
    for library, (kernel, priority) in kernels.items():
        context.kernels.add(
            "toy.scale",
            device="cpu",
            dtypes=["float32"],
            kernel=kernel,
            library=library,
            priority=priority,
            package=TOY,
        )


def place(*factors):
    """Run a chain of ``toy.scale`` operators and return its placement."""
    ops = [
        ow.Operator("toy.scale", x=f"x{i}" if i else "x", out=f"x{i + 1}", factor=factor)
        for i, factor in enumerate(factors)
    ]
    network = ow.Network(ops)
    (out,) = network.compile(feed=["x"], fetch=[f"x{len(ops)}"])(x=X)
    np.testing.assert_array_equal(out, X * np.prod(factors))
    return network.placement()


REASON = {"toy.scale by cpu/picky": "refused: takes no factor below 0, got -2.0"}


def test_the_placement_names_a_kernel_that_refused_with_its_reason(scales):
    placement = place(3.0, -2.0)
    assert placement.kernels == {"cpu/picky": 1, "cpu/plain": 1}
    assert placement.refusals == REASON
    (line,) = (line for line in str(placement).splitlines() if "picky:" in line)
    assert line == "  toy.scale by cpu/picky: refused: takes no factor below 0, got -2.0"


class Code:
    def __str__(self):
        return "takes no factor below 0, got -2.0"


def test_the_reason_of_a_refusal_may_be_any_object_with_a_text(scales, monkeypatch):
    monkeypatch.setattr(Picky, "prepare", staticmethod(lambda ctx: ctx.refuse(Code())))
    assert place(-2.0).refusals == REASON
    monkeypatch.setattr(Picky, "prepare", staticmethod(lambda ctx: ctx.lack(5)))
    [reason] = place(-3.0).refusals.values()
    assert reason == "refused: this machine lacks what the kernel needs: 5"


def test_an_error_in_a_property_of_a_kernel_is_the_reason_of_its_failure(scales, monkeypatch):
    class Ready:
        @property
        def bind(self):
            raise ZeroDivisionError("no part")

    monkeypatch.setattr(Picky, "prepare", staticmethod(lambda ctx: Ready()))
    with pytest.raises(KernelError, match="prepare failed .* got ZeroDivisionError: no part"):
        place(3.0)


def test_the_placement_of_a_later_plan_also_names_the_refusal(scales):
    place(-2.0)
    assert place(-2.0, -2.0).refusals == REASON


def test_a_placement_without_refusals_does_not_name_kernels(scales):
    placement = place(3.0)
    assert placement.refusals == {}
    assert "by cpu" not in str(placement)


def test_a_cached_refusal_does_not_keep_objects_of_the_preparation_alive(scales):
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        place(-2.0)
        assert not WORKED_WITH
    finally:
        if was_enabled:
            gc.enable()
