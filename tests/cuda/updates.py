"""Updates of parameters by every optimizer, for tests of kernels and passes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import opwright as ow
from opwright.op import dtype_to_numpy

PENALTIES = {"l1": 0.5, "l2": 0.25}
KINDS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "sgd": ((), {"weight_decay": 0.1}),
    "momentum": (("velocity",), {"mu": 0.9, "nesterov": True}),
    "lion": (("moment",), {"weight_decay": 0.1}),
    "adam": (("moment1", "moment2", "beta1_power", "beta2_power"), {}),
    "adamw": (("moment1", "moment2", "beta1_power", "beta2_power"), {"weight_decay": 0.2}),
    "adamax": (("moment", "infinity_norm", "beta1_power"), {}),
    "nadam": (("moment1", "moment2", "step", "mu_product"), {}),
    "radam": (("moment1", "moment2", "step"), {}),
    "adagrad": (("squares",), {}),
    "adadelta": (("mean_square", "mean_update"), {}),
    "rmsprop": (
        ("mean_square", "mean_grad", "velocity"),
        {"momentum": 0.5, "centered": True, "epsilon": 0.5},
    ),
    "proximal_gd": ((), PENALTIES),
    "proximal_adagrad": (("squares",), PENALTIES),
    "ftrl": (("squares", "linear"), PENALTIES),
}
SCALARS = {"beta1_power": 0.9**3, "beta2_power": 0.999**3, "step": 7.0, "mu_product": 0.3}
SHAPES = ((), (1,), (0, 4), (7,), (513,), (33, 130))


def update(
    device: str,
    kind: str,
    shapes: tuple[tuple[int, ...], ...],
    dtype: str,
    passes: Any,
    steps: int = 2,
    drawn: str = "float64",
    scalars: tuple[str, ...] = ("float64",),
) -> tuple[dict[str, Any], Counter[str]]:
    """Update tensors of the given shapes.

    Return parameters, states and powers, and the operators of the plan by type. The dtypes of
    powers and steps alternate between the given `scalars`.
    """
    states, attrs = KINDS[kind]
    rng = np.random.default_rng(7)
    block, scope = ow.Program().global_block(), ow.Scope()

    def persistable(name: str, value: Any, dtype: str) -> str:
        block.create_var(name, np.shape(value), dtype, persistable=True)
        numbers = np.asarray(value).astype(dtype_to_numpy(drawn))
        scope.var(name).set(numbers.astype(dtype_to_numpy(dtype)))
        return name

    rate = persistable("rate", [0.1], "float32")
    names = []
    for i, shape in enumerate(shapes):
        slots = {"param": persistable(f"param{i}", rng.standard_normal(shape), dtype)}
        slots["grad"] = persistable(f"grad{i}", rng.standard_normal(shape), dtype)
        for slot in states:
            if slot in SCALARS:
                wide = scalars[i % len(scalars)]
                slots[slot] = persistable(f"{slot}{i}", [SCALARS[slot]], wide)
            else:
                slots[slot] = persistable(f"{slot}{i}", rng.uniform(0, 1, shape), dtype)
        outputs = {f"{slot}_out": name for slot, name in slots.items() if slot != "grad"}
        block.append_op(kind, {**slots, "learning_rate": rate}, outputs, attrs)
        names += outputs.values()
    network = ow.Network(block)
    step = network.compile(feed=[], fetch=[], device=device, scope=scope, passes=passes)
    for _ in range(steps):
        step()
    values = {name: scope.var(name).numpy() for name in names}
    return values, Counter(network.placement().types)
