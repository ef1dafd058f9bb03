"""Training steps with thread-independent results, compared with ordinary training steps."""

from __future__ import annotations

from functools import partial

from networks import lenet, mlp
from workload import Timed, Workload


def mlp_step(deterministic: bool) -> Timed:
    """Prepare 784-200-200-10 with SGD, batch 64."""
    import opwright as ow

    model, loss = mlp.make_opwright_model(64)
    images, labels = mlp.make_batch(64)
    call = ow.Network(model.program.global_block()).compile(
        ["img", "label"], [loss], scope=model.scope, deterministic=deterministic
    )

    def step() -> float:
        return float(call(img=images, label=labels)[0])

    return Timed(step, values=[step() for _ in range(mlp.STEPS_TO_COMPARE)])


def lenet_step(deterministic: bool) -> Timed:
    """Prepare LeNet with Adam, batch 64."""
    import opwright as ow

    block, scope, loss = lenet.make_opwright_step()
    images, labels = lenet.make_batch()
    call = ow.Network(block).compile(["x", "y"], [loss], scope=scope, deterministic=deterministic)

    def step() -> float:
        return float(call(x=images, y=labels)[0])

    return Timed(step, values=[step() for _ in range(lenet.STEPS_TO_COMPARE)])


WORKLOADS = [
    Workload(
        f"determinism-{name}",
        f"{what}, with the same bits for any number of threads and without",
        unit,
        {
            "opwright": partial(make, False),
            "opwright deterministic": partial(make, True),
        },
        {},
        tolerance=1e-3,
    )
    for name, what, unit, make in (
        ("mlp-train-64", "MLP training step, batch 64", "µs", mlp_step),
        ("lenet-train-64", "LeNet training step, Adam, batch 64", "ms", lenet_step),
    )
]
