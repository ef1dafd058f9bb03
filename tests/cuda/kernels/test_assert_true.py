"""Failed assertions on a GPU raise at the next synchronization, even in replayed graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelError

pytestmark = pytest.mark.cuda_kernels


def compiled(shape: tuple[int, ...], message: str) -> tuple[ow.Network, Any]:
    """Return a network that doubles x and asserts that it is positive."""
    block = ow.Program().global_block()
    block.create_var("x", shape, "float32", is_data=True)
    block.append_op("fill_like", {"x": "x"}, {"out": "zero"})
    block.append_op("greater", {"x": "x", "y": "zero"}, {"out": "is_positive"})
    block.append_op("assert_true", {"condition": "is_positive"}, None, {"message": message})
    block.append_op("add", {"x": "x", "y": "x"}, {"out": "out"})
    network = ow.Network(block)
    return network, network.compile(["x"], ["out"], device="cuda", scope=ow.Scope())


def test_a_true_assertion_is_part_of_the_graph() -> None:
    network, call = compiled((3, 300), "x must be > 0")
    x = np.ones((3, 300), np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(call(x=x)[0], x + x)
    assert network.placement().graph_refusal == ""
    x[2, 7] = -1
    with pytest.raises(KernelError, match="assert_true: x must be > 0: of 900 elements number 607"):
        call(x=x)
    x[2, 7] = 1
    np.testing.assert_array_equal(call(x=x)[0], x + x)


def test_an_assertion_without_a_message_has_a_default_text() -> None:
    _, call = compiled((), "")
    with pytest.raises(KernelError, match="condition must be true: of 1 elements number 0 is fal"):
        call(x=np.float32(0))


def test_an_assertion_on_an_empty_tensor_holds() -> None:
    _, call = compiled((0, 3), "x must be > 0")
    assert call(x=np.zeros((0, 3), np.float32))[0].shape == (0, 3)
