"""The fixed cost of calling a one-operator network and of calling an operator on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers import find_peers
from workload import Goal, Timed, Workload

A = np.linspace(-1, 1, 8, dtype="float32")
B = np.linspace(2, 3, 8, dtype="float32")


def opwright_network_of_add() -> Any:
    """Return a compiled network with one addition."""
    import opwright as ow

    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = main.global_block().create_var("x", shape=[8])
        out = ow.ops.add(x, x)
    return ow.Network(main.global_block()).compile(feed=["x"], fetch=[out], scope=ow.Scope())


def opwright_network() -> Timed:
    """Prepare a compiled network with one addition."""
    call = opwright_network_of_add()
    return Timed(lambda: call(x=A), values=call(x=A)[0].tolist())


def opwright_network_on_tensors() -> Timed:
    """Prepare the same call, with a PyTorch tensor as a positional feed."""
    find_peers()
    import torch

    x = torch.from_numpy(A)
    call = opwright_network_of_add()
    return Timed(lambda: call(x), values=call(x)[0].tolist())


def onnxruntime_network() -> Timed:
    """Prepare a session with one node."""
    from onnx import TensorProto, helper

    from peers import make_model, open_session

    node = helper.make_node("Add", ["x", "x"], ["out"])
    model = make_model([node], {"x": [8]}, {"out": [8]}, {}, TensorProto.FLOAT)
    session = open_session(model)
    feed = {"x": A}
    return Timed(lambda: session.run(None, feed), values=session.run(None, feed)[0].tolist())


def jax_network() -> Timed:
    """Prepare a jitted function with NumPy inputs and outputs."""
    import jax

    add = jax.jit(lambda x: x + x)
    return Timed(lambda: np.asarray(add(A)), values=np.asarray(add(A)).tolist())


def torch_network() -> Timed:
    """Prepare an eager addition between NumPy arrays, without autograd."""
    import torch

    def call() -> np.ndarray:
        x = torch.from_numpy(A)
        return torch.add(x, x).numpy()

    torch.set_grad_enabled(False)
    return Timed(call, values=call().tolist())


def opwright_eager() -> Timed:
    """Prepare opwright.ops.add, looked up at each call, as in typical code."""
    import opwright as ow

    return Timed(lambda: ow.ops.add(A, B), values=ow.ops.add(A, B).tolist())


def opwright_bound() -> Timed:
    """Prepare the function, looked up in the module once."""
    from opwright.ops import add

    return Timed(lambda: add(A, B), values=add(A, B).tolist())


def opwright_on_tensors() -> Timed:
    """Prepare opwright.ops.add on PyTorch tensors, with a tensor as the result."""
    find_peers()
    import torch

    import opwright as ow

    a, b = torch.from_numpy(A), torch.from_numpy(B)
    return Timed(lambda: ow.ops.add(a, b), values=ow.ops.add(a, b).tolist())


def opwright_on_jax_arrays() -> Timed:
    """Prepare opwright.ops.add on JAX arrays, with a JAX array as the result."""
    find_peers()
    import jax.numpy as jnp

    import opwright as ow

    a, b = jnp.asarray(A), jnp.asarray(B)
    return Timed(lambda: ow.ops.add(a, b), values=ow.ops.add(a, b).tolist())


def numpy_eager() -> Timed:
    """Prepare numpy.add."""
    return Timed(lambda: np.add(A, B), values=np.add(A, B).tolist())


def jax_eager() -> Timed:
    """Prepare jax.numpy.add on device arrays."""
    import jax.numpy as jnp

    a, b = jnp.asarray(A), jnp.asarray(B)
    return Timed(lambda: jnp.add(a, b).block_until_ready(), values=jnp.add(a, b).tolist())


def torch_eager() -> Timed:
    """Prepare torch.add on tensors, without autograd."""
    import torch

    a, b = torch.from_numpy(A), torch.from_numpy(B)
    torch.set_grad_enabled(False)
    return Timed(lambda: torch.add(a, b), values=torch.add(a, b).tolist())


WORKLOADS = [
    Workload(
        "call",
        "a call of a compiled network of one operator, NumPy in and out",
        "ns",
        {
            "opwright": opwright_network,
            "opwright, fed a tensor": opwright_network_on_tensors,
            "torch": torch_network,
            "onnxruntime": onnxruntime_network,
            "jax": jax_network,
        },
        {"opwright": [Goal(figure=400)], "opwright, fed a tensor": [Goal(figure=800)]},
    ),
    Workload(
        "eager",
        "add on two arrays of 8 floats",
        "ns",
        {
            "opwright": opwright_eager,
            "opwright, function at hand": opwright_bound,
            "numpy": numpy_eager,
            "torch": torch_eager,
            "jax": jax_eager,
        },
        {"opwright": [Goal(figure=500)], "opwright, function at hand": [Goal(figure=500)]},
    ),
    Workload(
        "eager-torch",
        "add on two tensors of PyTorch of 8 floats",
        "ns",
        {"opwright": opwright_on_tensors, "torch": torch_eager},
        {"opwright": [Goal(figure=1500)]},
    ),
    Workload(
        "eager-jax",
        "add on two JAX arrays of 8 floats",
        "ns",
        {"opwright": opwright_on_jax_arrays, "jax": jax_eager},
        {"opwright": [Goal(figure=5000)]},
    ),
]
