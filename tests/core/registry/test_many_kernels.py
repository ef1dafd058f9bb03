"""Registering many kernels of one operator has linear cost."""

from __future__ import annotations

import pytest

from counted_calls import count_calls
from opwright.plugin import KernelRegistrar
from swish_operators import ACME, make_kernels, swish


def register(count):
    def fill():
        kernels = make_kernels()
        for i in range(count):
            kernels.add(
                "acme.swish",
                device="cpu",
                dtypes=["float32"],
                kernel=swish,
                library=f"library_{i}",
                package=ACME,
            )

    return fill


def collect(count):
    def fill():
        registry = KernelRegistrar(ACME)
        for i in range(count):
            registry.add(
                "acme.swish",
                device="cpu",
                dtypes=["float32"],
                kernel="acme.kernels:swish",
                library=f"library_{i}",
            )

    return fill


@pytest.mark.parametrize("fill", [register, collect])
def test_registering_many_kernels_of_one_operator_has_linear_cost(fill):
    few, many = count_calls(fill(100)), count_calls(fill(400))
    assert many < 4.5 * few
