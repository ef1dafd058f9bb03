"""PyTorch tensors and JAX arrays can be fed and returned, if these packages are installed."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import FeedError

X = np.arange(4, dtype=np.float32) - 1
WHY = "needs the library itself; its protocol is tested with fakes"


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason=WHY)


@pytest.fixture
def call():
    network = ow.Network([ow.Operator("add", x="x", y="x", out="y")])
    return network.compile(["x"], ["y"], scope=ow.Scope())


@pytest.mark.parametrize("form", ["position", "name", "dict", "strided"])
def test_tensors_can_be_fed_by_position_by_name_and_in_a_dict(torch, call, form):
    x = torch.from_numpy(X)
    feeds = {"position": (x,), "dict": ({"x": x},), "strided": (x.repeat(2, 1).T[:, 0],)}
    result = call(x=x) if form == "name" else call(*feeds[form])
    np.testing.assert_array_equal(result[0], 2 * X)


def test_parameters_are_read_if_gradients_are_not_tracked(torch, call):
    x = torch.nn.Parameter(torch.from_numpy(X.copy()))
    with pytest.raises(FeedError, match=r"pass its detach\(\)"):
        call(x)
    for guarded in (x, x.reshape(2, 2).T):
        with ow.detach_guard():
            result = ow.ops.add(guarded, 1.0)
        assert type(result) is torch.Tensor
        np.testing.assert_array_equal(result.numpy(), guarded.detach().numpy() + 1)


def test_results_are_tensors_in_given_or_new_memory(torch, call):
    for importer in (torch.from_dlpack, torch.Tensor):
        (result,) = call(X, fetch_as=importer)
        assert type(result) is torch.Tensor
        np.testing.assert_array_equal(result.numpy(), 2 * X)
    out = torch.zeros(4)
    assert call(X, out=[out])[0] is out
    np.testing.assert_array_equal(out.numpy(), 2 * X)


def test_a_network_trains_the_parameters_and_statistics_of_a_module(torch):
    weight, count = torch.nn.Parameter(torch.ones(4)), torch.zeros(4)
    scope = ow.Scope()
    scope.var("w").borrow(weight.detach())
    ops = [
        ow.Operator("add", x="w", y="x", out="w"),
        ow.Operator("add", x="count", y="x", out="count"),
    ]
    call = ow.Network(ops).compile(["x", "count"], ["w"], scope=scope, writes=["count"])
    call(torch.from_numpy(X), count)
    np.testing.assert_array_equal(weight.detach().numpy(), 1 + X)
    np.testing.assert_array_equal(count.numpy(), X)


def test_jax_arrays_can_be_fed_and_returned_but_not_written(call):
    jnp = pytest.importorskip("jax.numpy", reason=WHY)
    x = jnp.asarray(X)
    np.testing.assert_array_equal(call(x)[0], 2 * X)
    np.testing.assert_array_equal(call({"x": x}, fetch_as=jnp.from_dlpack)[0], 2 * X)
    with pytest.raises(FeedError, match=r"out\[0\]: it is written, got a read-only array"):
        call(X, out=[x])
