"""The body of dist.route_rows, which is used on devices without a kernel, matches the kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import opwright as ow
import opwright_dist as dist
from opwright.errors import KernelError
from opwright.registry.kernels import KernelRegistry

RNG = np.random.default_rng(0)


class Many(dist.SingleProcess):
    """Simulates `size` unconnected processes; routing does not need connections."""

    def __init__(self, size: int) -> None:
        self._size = size

    @property
    def size(self) -> int:
        return self._size


@pytest.fixture(params=[1, 2, 5])
def n_processes(request: pytest.FixtureRequest) -> Iterator[int]:
    before = dist.set_world(dist.World(Many(request.param)))
    yield request.param
    dist.set_world(before)


def without_kernel(op_type: str) -> ow.Context:
    context = ow.Context.discover()
    kernels = KernelRegistry(context.ops, context.report)
    for registration, package in context.kernels.registrations():
        if registration.op_type != op_type:
            kernels.enter([registration], package)
    context.kernels = kernels
    return context


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_body_and_the_kernel_route_rows_identically(n_processes: int, dtype: str) -> None:
    contexts = ow.Context.discover(), without_kernel("dist.route_rows")
    for size in (1, 11, 1000):
        for shape in ((), (0, 2), (1,), (3, 4), (257,)):
            ids = RNG.integers(0, size, shape).astype(dtype)
            for padding_index in (-1, size - 1):
                results = []
                for context in contexts:
                    with ow.context_guard(context):
                        options = {"size": size, "padding_index": padding_index}
                        results.append(ow.ops.dist.route_rows(ids, **options))
                for result, wanted in zip(*results[::-1], strict=True):
                    np.testing.assert_array_equal(result, wanted, strict=True)


@pytest.mark.parametrize("wrong", [-1, 11])
def test_the_body_refuses_the_same_inputs_as_the_kernel(n_processes: int, wrong: int) -> None:
    with (
        ow.context_guard(without_kernel("dist.route_rows")),
        pytest.raises(KernelError, match=r"dist.route_rows: ids must be in \[0, 11\): 1 of 3 el"),
    ):
        ow.ops.dist.route_rows(np.array([3, wrong, 10]), size=11)
