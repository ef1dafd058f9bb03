"""Varying variables may change between runs, so no value that depends on them is kept."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright import _runtime
from opwright.errors import FeedError


def product() -> tuple[ow.Block, ow.Variable]:
    program = ow.Program()
    block = program.global_block()
    x = block.create_var("x", [64, 256], is_data=True)
    weight = block.create_parameter("w", [512, 256])
    out = block.append_op("fc", {"x": x, "weight": weight}, {}, {"transpose_weight": True})
    return block, block.var(out.output("out")[0])


def scope_of(weight: np.ndarray) -> ow.Scope:
    scope = ow.Scope()
    scope.var("w").borrow(weight)
    return scope


@pytest.mark.parametrize("varying", [(), ("w",)])
def test_the_next_run_uses_a_changed_value(varying: tuple[str, ...]) -> None:
    block, out = product()
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((512, 256)).astype(np.float32)
    scope = scope_of(weight)
    run = ow.Network(block).compile(["x"], [out], scope=scope, varying=varying)
    x = rng.standard_normal((64, 256)).astype(np.float32)
    for _ in range(3):
        np.testing.assert_allclose(run(x)[0], x @ weight.T, rtol=1e-3, atol=1e-3)
        weight *= 2
        scope.var("w").touch()


def test_varying_values_are_not_packed() -> None:
    block, out = product()
    weight = np.ones((512, 256), np.float32)
    packed = _runtime.packed_bytes()
    run = ow.Network(block).compile(["x"], [out], scope=scope_of(weight), varying=["w"])
    run(np.ones((64, 256), np.float32))
    assert _runtime.packed_bytes() == packed


def test_a_name_that_is_not_in_the_scope_raises() -> None:
    block, out = product()
    with pytest.raises(
        FeedError, match=r"varying: must be variables of the scope, got 'x'.*name a"
    ):
        ow.Network(block).compile(["x"], [out], varying=["x"])
