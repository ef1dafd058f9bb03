"""Tests output shapes of collectives for several processes, and results for one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import opwright as ow
import opwright_dist as dist
from opwright.errors import GradientError, KernelNotFoundError, ShapeError

NAMES = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "barrier")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64"])
def test_in_one_process_a_collective_returns_its_input(name: str, dtype: str) -> None:
    x = np.arange(6).reshape(3, 2).astype(dtype)
    out = getattr(ow.ops.dist, name)(x)
    np.testing.assert_array_equal(out, x)
    assert out.dtype == x.dtype


def collective(name: str, **attrs: object) -> tuple[ow.Network, ow.Variable, ow.Variable]:
    block = ow.Program().global_block()
    x = block.create_var("x", shape=[-1, 4], dtype="float32")
    out = block.create_var("out")
    block.append_op(f"dist.{name}", inputs={"x": x}, outputs={"out": out}, attrs=attrs)
    return ow.Network(block), x, out


@contextmanager
def world_of(engine: dist.Engine) -> Iterator[None]:
    """Replace the world and the Context, since prepared kernels belong to one world."""
    before = dist.set_world(dist.World(engine, deadline_s=5))
    try:
        with ow.context_guard(ow.Context.discover()):
            yield
    finally:
        dist.set_world(before)


@pytest.mark.parametrize("passes", [None, ["-dist_alone"]])
@pytest.mark.parametrize("name", NAMES)
def test_in_one_process_a_collective_runs_in_a_plan_with_and_without_its_pass(
    name: str, passes: list[str] | None
) -> None:
    network, x, out = collective(name)
    given = np.ones((3, 4), np.float32)
    (result,) = network.compile(feed=[x], fetch=[out], passes=passes)(x=given)
    np.testing.assert_array_equal(result, given)


@pytest.mark.parametrize(
    ("name", "attrs", "shape"),
    [
        ("all_gather", {"axis": 1}, (-1, 8)),
        ("reduce_scatter", {"axis": 1}, (-1, 2)),
        ("all_to_all", {"axis": 1}, (-1, 4)),
        ("all_reduce", {}, (-1, 4)),
        ("broadcast", {"root": 1}, (-1, 4)),
        ("barrier", {}, (-1, 4)),
    ],
)
def test_collectives_of_two_processes_infer_their_shapes(
    two: dist.Engine, name: str, attrs: dict[str, object], shape: tuple[int, ...]
) -> None:
    _, _, out = collective(name, **attrs)
    assert out.shape == shape


def test_an_axis_that_cannot_be_divided_is_refused(two: dist.Engine) -> None:
    with pytest.raises(ShapeError, match=r"axis 0 must be a multiple of the 2 processes.*got 3"):
        ow.ops.dist.reduce_scatter(np.ones((3, 2), np.float32))


def test_a_root_outside_the_group_is_refused(two: dist.Engine) -> None:
    with pytest.raises(ShapeError, match=r"root must be in \[0, 2\), a process of group 'world'"):
        collective("broadcast", root=2)


def test_without_an_engine_several_processes_are_refused(two: dist.Engine) -> None:
    network, x, out = collective("all_reduce")
    with pytest.raises(KernelNotFoundError, match="group 'world' .*processes"):
        network.compile(feed=[x], fetch=[out])(x=np.ones((3, 4), np.float32))


def backward(name: str, **attrs: object) -> list[str]:
    _, x, out = collective(name, **attrs)
    ow.append_backward([out], parameters=[x])
    return [op.type for op in out.block.ops]


@pytest.mark.parametrize(
    ("name", "gradient"),
    [
        ("all_reduce", "dist.all_reduce"),
        ("all_gather", "dist.reduce_scatter"),
        ("reduce_scatter", "dist.all_gather"),
        ("all_to_all", "dist.all_to_all"),
    ],
)
def test_the_gradient_of_a_collective_is_a_collective(name: str, gradient: str) -> None:
    assert gradient in backward(name)[1:]


@pytest.mark.parametrize("reduce", ["max", "min", "mean"])
def test_in_one_process_the_gradient_of_every_reduction_is_the_identity(reduce: str) -> None:
    network, x, out = collective("all_reduce", reduce=reduce)
    ((_, gradient),) = ow.append_backward([out], parameters=[x])
    (result,) = network.compile(feed=[x], fetch=[gradient])(x=np.ones((3, 4), np.float32))
    np.testing.assert_array_equal(result, np.ones((3, 4), np.float32))


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_the_gradient_program_of_reduce_scatter_is_the_same_for_any_number_of_processes(
    two: dist.Engine, reduce: str
) -> None:
    def write() -> str:
        _, x, out = collective("reduce_scatter", reduce=reduce, axis=0)
        ow.append_backward([out], parameters=[x])
        return str(out.block.program)

    together = write()
    with world_of(dist.SingleProcess()):
        alone = write()
    assert together == alone


@pytest.mark.parametrize(("ranks", "share"), [(1, 1.0), (2, 0.5)])
def test_the_divisor_of_a_mean_is_determined_when_the_program_is_lowered(
    two: dist.Engine, ranks: int, share: float
) -> None:
    network, x, out = collective("mean_share")
    ((_, gradient),) = ow.append_backward([out], parameters=[x])
    given = np.full((3, 4), 6, np.float32)
    with world_of(two if ranks == 2 else dist.SingleProcess()):
        results = network.compile(feed=[x], fetch=[out, gradient])(x=given)
    np.testing.assert_array_equal(results[0], given * share)
    np.testing.assert_array_equal(results[1], np.full((3, 4), share, np.float32))


@pytest.mark.parametrize("name", [*NAMES, "mean_share"])
def test_an_unknown_group_is_refused_when_a_program_is_built(name: str) -> None:
    with pytest.raises(dist.DistError, match=rf"dist\.{name}: unknown group, got 'pair'; groups"):
        collective(name, group="pair")


@pytest.mark.parametrize("name", [*NAMES, "mean_share"])
def test_an_unknown_group_in_a_stored_program_is_refused_when_the_program_is_lowered(
    two: dist.Engine, name: str
) -> None:
    dist.new_group("pair", [0, 1])
    _, _, out = collective(name, group="pair")
    stored = out.block.program.to_proto()
    network = ow.Network(ow.Program.from_proto(stored).global_block())
    with (
        world_of(dist.SingleProcess()),
        pytest.raises(dist.DistError, match=rf"dist\.{name}: unknown group, got 'pair'"),
    ):
        network.compile(feed=["x"], fetch=["out"])(x=np.ones((4, 4), np.float32))


def test_reduce_scatter_of_a_maximum_has_no_gradient() -> None:
    with pytest.raises(GradientError, match="must be a sum or mean, got reduce='max'"):
        backward("reduce_scatter", reduce="max")
