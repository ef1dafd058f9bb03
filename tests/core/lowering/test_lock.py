"""Packages installed later do not change a locked plan, and errors list all differences."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright import context_guard
from opwright.errors import KernelError, KernelNotFoundError, LockError, ProgramError
from opwright.lowering.lock import LockedPass
from opwright.packages import Package

from .toy_graphs import TOY, add_relu, chain, fuse_add_relu, make_toy

STRANGER = Package("stranger", "opwright-stranger", "3.0")
X = np.array([1, -2, 3, -4], np.float32)


def plain(x, out, *, factor):
    np.multiply(x, factor, out=out)


class Picky:
    """A kernel that refuses negative factors."""

    @staticmethod
    def prepare(ctx):
        if ctx.attrs["factor"] < 0:
            ctx.refuse("takes no factor below 0")
        return lambda x, out: np.multiply(x, ctx.attrs["factor"], out=out)


@pytest.fixture
def scales(context):
    context.ops.add("toy.scale", make_toy("toy.scale", ["x"]), TOY)
    add_scale(context, "picky", Picky, 60)
    add_scale(context, "plain", plain, 50)
    return context


def add_scale(context, library, kernel, priority, package=TOY, dtypes="float32"):
    context.kernels.add(
        "toy.scale",
        device="cpu",
        dtypes=[dtypes] if dtypes != "*" else "*",
        kernel=kernel,
        library=library,
        priority=priority,
        package=package,
    )


def scaled(*factors):
    return ow.Network(
        ow.Operator("toy.scale", x=f"x{i}" if i else "x", out=f"x{i + 1}", factor=factor)
        for i, factor in enumerate(factors)
    )


def run(network, fetch="out", feeds=None, **options):
    """Run once, and return the number of operators that each library computed."""
    feeds = feeds or {"x": X}
    call = network.compile(feed=list(feeds), fetch=[fetch], scope=ow.Scope(), **options)
    call(**feeds)
    return dict(network.placement().kernels)


def libraries(lock):
    return [(row.operator, row.library) for row in lock.kernels]


def test_a_lock_records_the_package_and_version_of_each_kernel_and_pass(context):
    context.passes.add("toy_pass", phase="fuse", function=fuse_add_relu, package=TOY)
    network = ow.Network(chain())
    run(network, feeds={"x": X, "y": X})
    lock = network.lock()
    assert lock.device == "cpu"
    (row,) = lock.kernels
    assert row == ("toy.add_relu", "cpu", "float32", "toy", "opwright-toy", "1.0")
    assert lock.passes == (("toy_pass", "opwright-toy", "1.0"),)
    assert run(network, feeds={"x": X, "y": X}, lock=lock) == {"cpu/toy": 1}
    assert network.lock() == lock


def test_a_kernel_of_higher_priority_does_not_change_a_locked_plan(scales):
    network = scaled(2.0)
    run(network, "x1")
    lock = network.lock()
    add_scale(scales, "stranger", plain, 99, STRANGER)
    assert run(network, "x1") == {"cpu/stranger": 1}
    assert run(network, "x1", lock=lock) == {"cpu/picky": 1}


def test_plans_of_a_network_are_distinguished_by_their_lock(scales):
    network = scaled(2.0)
    run(network, "x1")
    lock = network.lock()
    with scales.pin("toy.scale", "plain"):
        run(network, "x1")
        other = network.lock()
    assert libraries(other) == [("toy.scale", "plain")]
    for held, library in ((lock, "picky"), (other, "plain"), (lock, "picky"), (None, "picky")):
        assert run(network, "x1", lock=held) == {f"cpu/{library}": 1}


def test_kernels_are_tried_in_the_order_of_the_lock(scales):
    with context_guard(scales.with_pins({"*": "plain"})):
        network = scaled(2.0)
        run(network, "x1")
        first = network.lock()
    run(network, "x1")
    both = ow.Lock("cpu", first.kernels + network.lock().kernels, ())
    assert libraries(both) == [("toy.scale", "plain"), ("toy.scale", "picky")]
    assert run(network, "x1", lock=both) == {"cpu/plain": 1}


def test_a_lock_created_under_a_pin_keeps_the_kernel_order_of_the_pin(scales):
    """The pinned library refuses one of two operators, so both kernels are locked."""
    add_scale(scales, "first", plain, 70)
    with context_guard(scales.with_pins({"*": "picky"})):
        network = scaled(2.0, -3.0)
        assert run(network, "x2") == {"cpu/picky": 1, "cpu/first": 1}
        lock = network.lock()
    assert libraries(lock) == [("toy.scale", "picky"), ("toy.scale", "first")]
    assert run(network, "x2", lock=lock) == {"cpu/picky": 1, "cpu/first": 1}


def test_one_lock_covers_all_feeds_of_a_callable(scales):
    add_scale(scales, "wide", plain, 50, dtypes="float64")
    network = scaled(2.0)
    call = network.compile(feed=["x"], fetch=["x1"])
    call(x=X)
    call(x=X.astype("float64"))
    assert [row.dtype for row in network.lock().kernels] == ["float32", "float64"]


def test_an_intermediate_operator_that_a_later_pass_replaces_is_also_locked(context):
    """The first pass needs a kernel for its fused operator, which the second pass then replaces."""
    context.ops.add("toy.last", make_toy("toy.last", ["x", "y"]), TOY)
    context.kernels.add(
        "toy.last", device="cpu", dtypes=["float32"], kernel=add_relu, library="toy", package=TOY
    )

    def replace(graph):
        edit = graph.edit()
        for op in graph.of_type("toy.add_relu"):
            (x,), (y,) = op.inputs
            made = graph.make("toy.last", {"x": x, "y": y}, {"out": op.outputs[0]}, like=op)
            edit.fuse([op], [made])
        return edit.apply()

    context.passes.add("first", phase="fuse", function=fuse_add_relu, package=TOY)
    context.passes.add("second", phase="layout", function=replace, package=TOY)
    network = ow.Network(chain())
    feeds = {"x": X, "y": X}
    run(network, feeds=feeds)
    assert network.placement().types == {"toy.last": 1}
    run(network, feeds=feeds, lock=network.lock())
    assert network.placement().types == {"toy.last": 1}


def test_a_pass_or_a_fused_kernel_installed_later_does_not_change_a_locked_plan(context):
    context.ops.add("toy.later", make_toy("toy.later", ["x", "y"]), TOY)
    asked = []

    def fuse_later(graph):
        asked.append(graph.is_served("toy.later"))
        return fuse_add_relu(graph, "toy.later")

    context.passes.add("toy_pass", phase="fuse", function=fuse_later, package=TOY)
    network = ow.Network(chain())
    feeds = {"x": X, "y": X}
    run(network, feeds=feeds)
    lock = network.lock()
    context.kernels.add(
        "toy.later",
        device="cpu",
        dtypes=["float32"],
        kernel=add_relu,
        library="stranger",
        package=STRANGER,
    )
    ran = []
    context.passes.add("later", phase="fuse", function=ran.append, package=STRANGER)
    run(network, feeds=feeds)
    assert network.placement().types == {"toy.later": 1}
    assert len(ran) == 1
    run(network, feeds=feeds, lock=lock)
    assert network.placement().types == {"add": 1, "relu": 1}
    assert asked == [False, True, False]
    assert len(ran) == 1


def branching():
    program = ow.Program()
    block = program.global_block()
    block.create_var("p", [1], "bool")
    block.create_var("x", [-1])
    bodies = []
    for op_type in ("square", "negative"):
        bodies.append(program.create_block())
        bodies[-1].append_op(op_type, {"x": "x"}, {"out": "y"})
        program.rollback()
    attrs = {"true_block": bodies[0], "false_block": bodies[1]}
    attrs |= {"true_outputs": ["y"], "false_outputs": ["y"]}
    block.append_op("cond", {"condition": "p"}, {"out": ["out"]}, attrs)
    return ow.Network(block)


def test_the_kernels_of_bodies_are_locked(context):
    network, feeds = branching(), {"p": np.array([True]), "x": X}
    run(network, feeds=feeds)
    lock = network.lock()
    assert {row.operator for row in lock.kernels} == {"square", "negative"}
    run(network, feeds=feeds, lock=lock)
    kernels = tuple(row for row in lock.kernels if row.operator != "negative")
    with pytest.raises(LockError, match=r"negative\[cpu, float32\]: locked none, found .* of "):
        run(network, feeds=feeds, lock=ow.Lock("cpu", kernels, ()))


def test_an_operator_after_a_dynamic_shape_is_locked_once_it_has_run(context):
    network = ow.Network(
        [ow.Operator("nonzero", x="x", out="at"), ow.Operator("negative", x="at", out="out")]
    )
    run(network)
    lock = network.lock()
    assert {row.operator for row in lock.kernels} == {"nonzero", "negative"}
    kernels = tuple(row for row in lock.kernels if row.operator == "nonzero")
    with pytest.raises(KernelError, match=r"negative\[cpu, int64\]: locked none") as caught:
        run(network, lock=ow.Lock("cpu", kernels, ()))
    assert isinstance(caught.value.__cause__, LockError)


def test_every_difference_from_the_lock_is_listed_with_a_remedy(scales):
    network = scaled(2.0)
    run(network, "x1")
    (kept,) = network.lock().kernels
    lock = ow.Lock(
        "cuda",
        (
            kept._replace(version="0.9"),
            kept._replace(library="absent", package="opwright-absent", version="2.0"),
            kept._replace(operator="toy.absent"),
        ),
        (LockedPass("toy_pass", "opwright-toy", "0.9"),),
    )
    with pytest.raises(LockError) as caught:
        network.compile(feed=["x"], fetch=["x1"], lock=lock)
    scale, command = "toy.scale[cpu, float32]", "pip install opwright-toy==0.9"
    assert [line for line in str(caught.value).splitlines() if "plugin" not in line] == [
        "lock: kernels and passes must match the lock, got 5 that differ",
        "  device: locked cuda, found cpu",
        f"  {scale}: locked picky of opwright-toy 0.9, found picky of opwright-toy 1.0",
        f"  {scale}: locked absent of opwright-absent 2.0, found none",
        "  toy.absent[cpu, float32]: locked picky of opwright-toy 1.0, found none",
        "  pass toy_pass: locked opwright-toy 0.9, found none",
        f"  to get what is locked: {command} opwright-absent==2.0 opwright-toy==1.0",
        "  to write the lock again: opwright lock, or network.lock().save(path)",
    ]


def test_all_operators_without_a_usable_locked_kernel_are_listed(scales):
    network = scaled(2.0)
    run(network, "x1")
    lock = network.lock()
    longer = ow.Network(
        [
            ow.Operator("toy.scale", x="x", out="x1", factor=-2.0),
            ow.Operator("toy.scale", x="x1", out="x2", factor=-2.0),
            ow.Operator("relu", x="x2", out="x3"),
        ]
    )
    call = longer.compile(feed=["x"], fetch=["x3"], lock=lock)
    with pytest.raises(LockError) as caught:
        call(x=X)
    text = str(caught.value)
    assert "got 2 that differ" in text
    assert (
        "toy.scale[cpu, float32]: locked picky of opwright-toy 1.0 refused: takes no factor below "
        "0, found picky of opwright-toy 1.0 or plain of opwright-toy 1.0"
    ) in text
    assert "relu[cpu, float32]: locked none, found " in text


def test_an_operator_without_any_kernel_raises_the_usual_error_despite_a_lock(scales):
    lock = ow.Lock("cpu", (), ())
    call = ow.Network([ow.Operator("toy.orphan", x="x", y="x", out="out")])
    with pytest.raises(KernelNotFoundError, match=r"toy\.orphan.*no kernel registered"):
        call.compile(feed=["x"], fetch=["out"], lock=lock)(x=X)


@pytest.mark.parametrize("lock", [3, True, {"kernels": []}])
def test_a_lock_argument_of_the_wrong_type_raises(scales, lock):
    with pytest.raises(ProgramError, match=r"lock must be a Lock or the path of a lock file"):
        scaled(2.0).compile(feed=["x"], fetch=["x1"], lock=lock)


def test_passes_cannot_be_combined_with_a_lock(scales):
    lock = ow.Lock("cpu", (), ())
    with pytest.raises(ProgramError, match=r"the lock lists the passes to run, got passes=\[\]"):
        scaled(2.0).compile(feed=["x"], fetch=["x1"], passes=[], lock=lock)


def test_a_network_that_never_ran_has_no_lock():
    with pytest.raises(ProgramError, match=r"Network\.lock: a plan must have been lowered"):
        ow.Network().lock()
