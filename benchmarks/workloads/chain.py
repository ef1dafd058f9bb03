"""The cost per operator, in a chain of 1,000 alternating additions and sigmoids on 8 floats."""

from __future__ import annotations

import numpy as np

from workload import Goal, Timed, Workload

LENGTH = 1000
X = np.linspace(-1, 1, 8, dtype="float32")


def opwright() -> Timed:
    """Prepare one plan of 1,000 steps, which passes must not fuse."""
    import opwright as ow

    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        x = h = block.create_var("x", shape=[8])
        for index in range(LENGTH):
            h = ow.ops.sigmoid(h) if index % 2 else ow.ops.add(h, x)
    call = ow.Network(block).compile(feed=["x"], fetch=[h], passes=[], scope=ow.Scope())
    return Timed(lambda: call(x=X), per=LENGTH, values=call(x=X)[0].tolist())


def onnxruntime() -> Timed:
    """Prepare the same nodes in one ONNX Runtime session."""
    from onnx import TensorProto, helper

    from peers import make_model, open_session

    nodes = [
        helper.make_node("Sigmoid", [f"h{index}"], [f"h{index + 1}"])
        if index % 2
        else helper.make_node("Add", [f"h{index}", "h0"], [f"h{index + 1}"])
        for index in range(LENGTH)
    ]
    model = make_model(nodes, {"h0": [8]}, {f"h{LENGTH}": [8]}, {}, TensorProto.FLOAT)
    session = open_session(model)
    feed = {"h0": X}
    values = session.run(None, feed)[0].tolist()
    return Timed(lambda: session.run(None, feed), per=LENGTH, values=values)


def jax() -> Timed:
    """Prepare one jitted function, which XLA may fuse."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def chain(x: jax.Array) -> jax.Array:
        h = x
        for index in range(LENGTH):
            h = jax.nn.sigmoid(h) if index % 2 else h + x
        return h

    x = jnp.asarray(X)
    values = np.asarray(chain(x)).tolist()
    return Timed(lambda: chain(x).block_until_ready(), per=LENGTH, values=values)


def torch() -> Timed:
    """Prepare eager operators in inference mode."""
    import torch

    x = torch.from_numpy(X)

    def chain() -> torch.Tensor:
        with torch.inference_mode():
            h = x
            for _ in range(LENGTH // 2):
                h = torch.sigmoid(torch.add(h, x))
            return h

    return Timed(chain, per=LENGTH, values=chain().tolist())


WORKLOADS = [
    Workload(
        "chain",
        "an operator in a chain of 1,000 on 8 floats",
        "ns",
        {"opwright": opwright, "onnxruntime": onnxruntime, "jax": jax, "torch": torch},
        {"opwright": [Goal(figure=20), Goal(ratio=0.12, of="onnxruntime")]},
    ),
]
