"""opwright custom calls within a compiled JAX function, compared with an empty call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from peers import find_peers
from workload import Goal, Timed, Workload

N = 64
X, Y = np.linspace(-1, 1, 8, dtype="float32"), np.linspace(2, 3, 8, dtype="float32")


def add_by(door: str) -> Callable[[Any, Any], Any]:
    """Return a function that adds two JAX arrays; its program has three more operations."""
    import jax

    if door == "jnp":
        return jax.numpy.add
    if door == "callback":
        return lambda x, y: jax.pure_callback(
            lambda a, b: np.asarray(a) + np.asarray(b), jax.ShapeDtypeStruct(x.shape, x.dtype), x, y
        )
    import opwright_jax

    if door == "ops":
        return opwright_jax.ops.add
    if door == "program":
        import opwright as ow

        block = ow.Program().global_block()
        for name in ("x", "y"):
            block.create_var(name, [8], "float32", is_data=True)
        name = block.append_op("add", {"x": "x", "y": "y"}).output("out")[0]
        for op_type in ("softmax", "cumsum"):
            attrs = {"axis": 0}
            name = block.append_op(op_type, {"x": name}, attrs=attrs).output("out")[0]
        block.append_op("softmax", {"x": name}, {"out": "out"})
        return partial(opwright_jax.function(block.program, ["x", "y"], "out"), {})
    from opwright_jax.plans import open_library

    target = jax.ffi.pycapsule(open_library().opwright_jax_execute_nothing)
    jax.ffi.register_ffi_target("opwright_nothing", target, platform="cpu")
    return lambda x, y: jax.ffi.ffi_call(
        "opwright_nothing", jax.ShapeDtypeStruct(x.shape, x.dtype)
    )(x, y)


def timed(door: str) -> Timed:
    """Return a chain of `N` calls in one compiled function."""
    find_peers()
    import jax

    add, x, y = add_by(door), jax.numpy.asarray(X), jax.numpy.asarray(Y)

    def chain(x: Any, y: Any) -> Any:
        for _ in range(N):
            x = add(x, y)
        return x

    run = jax.jit(chain)
    return Timed(lambda: run(x, y).block_until_ready(), per=N)


WORKLOADS = [
    Workload(
        "jax-ops",
        "a call of opwright_jax.ops.add, and of a program of four operators, on 8 floats in JAX",
        "ns",
        {
            "opwright": partial(timed, "ops"),
            "opwright-program": partial(timed, "program"),
            "nothing": partial(timed, "nothing"),
            "jax": partial(timed, "jnp"),
            "callback": partial(timed, "callback"),
        },
        {"opwright": [Goal(figure=500)]},
    ),
]
